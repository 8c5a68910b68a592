"""The steps of a sequence: how many it has, and which position of the data each one processes."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.recurrence.form import Recurrence


def find_steps(form: Recurrence, lengths: Any, row: Any) -> Any:
    """Return the number of steps of a sequence, which has at most as many as the data."""
    length = T.Bind(lengths[row].astype("int64"))
    return T.Bind(tirx.Max(tirx.Min(length, int64(form.steps)), int64(0)))


def find_time(form: Recurrence, step: Any, sequence: tuple[Any, Any]) -> Any:
    """Return the position in the sequence, (direction, number of steps), that a step processes."""
    direction, steps = sequence
    last = steps - 1
    if form.directions == 1:
        return last - step if form.backward[0] else step
    return step + direction * (last - 2 * step)
