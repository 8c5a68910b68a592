"""The rounding of a quantised recurrence's state to 8 bits by its own range, as by ONNX's DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.recurrence.form import LANES
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store

_STEPS = 255
"""The largest integer of 8 bits."""


@dataclass(frozen=True)
class Rounded:
    """The scale and zero point of a rounded state."""

    scale: Any
    zero: Any
    """The integer that represents 0."""
    total: Any = None
    """The sum of all integers minus the zero point, or None if the caller does not need it."""


Write = Callable[[Any, Any, Any], None]
"""A function that writes a vector of rounded numbers, given as float32, the zero points and the first index."""


def round_state(state: Any, begin: Any, count: int, write: Write, *, adds_up: bool = False) -> Rounded:
    """Round ``count`` numbers of the state from ``begin`` on, pass the integers to ``write``, and return the rounding.

    If ``adds_up``, also compute the sum of the integers.
    """
    least, largest = _find_range(state, begin, count)
    span = T.Bind((largest - least) / number(_STEPS))
    scale = T.Bind(tirx.Select(span > number(0), span, number(1)))
    zero = T.Bind(tirx.nearbyint(number(0) - least / scale))
    zeros, totals = T.Bind(spread(zero, LANES)), local(LANES)
    if adds_up:
        store(totals, number(0, LANES), 0, LANES)
    with T.serial(int64(count // LANES)) as vector:
        # Divide, as ONNX Runtime does: a product with the reciprocal may round to another integer.
        rounded = tirx.nearbyint(load(state, begin + vector * LANES, LANES) / spread(scale, LANES)) + zeros
        steps = T.Bind(tirx.Max(tirx.Min(rounded, number(_STEPS, LANES)), number(0, LANES)))
        write(steps, zeros, vector * LANES)
        if adds_up:
            store(totals, load(totals, 0, LANES) + (steps - zeros), 0, LANES)
    return Rounded(scale, zero, _halve(load(totals, 0, LANES), add) if adds_up else None)


def _find_range(state: Any, begin: Any, count: int) -> tuple[Any, Any]:
    """Return the minimum and the maximum of the numbers and 0."""
    least, largest = local(LANES), local(LANES)
    for buffer in (least, largest):
        store(buffer, number(0, LANES), 0, LANES)
    with T.serial(int64(count // LANES)) as vector:
        values = T.Bind(load(state, begin + vector * LANES, LANES))
        store(least, tirx.Min(load(least, 0, LANES), values), 0, LANES)
        store(largest, tirx.Max(load(largest, 0, LANES), values), 0, LANES)
    return _halve(load(least, 0, LANES), tirx.Min), _halve(load(largest, 0, LANES), tirx.Max)


def _halve(values: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Reduce a vector to one number: join its two halves until one lane is left."""
    lanes = LANES
    while lanes > 1:
        values, lanes = T.Bind(values), lanes // 2
        low, high = (tirx.Shuffle([values], list(range(first, first + lanes))) for first in (0, lanes))
        values = join(low, high)
    return T.Bind(values)
