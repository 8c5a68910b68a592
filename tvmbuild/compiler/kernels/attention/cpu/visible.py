"""Which keys a block of queries sees: those that constant masks hide from all of them are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.work import Work
from tvmbuild.compiler.kernels.attention.form import Attention


def visible_keys(work: Work) -> tuple[Any, Any]:
    """Return the first key that some query of the block sees, and the one after the last."""
    form, rows = work.form, work.sizes.rows
    first, last = _shifts(form)
    begin = int64(0) if first is None else tirx.Max(int64(0), work.first + first)
    end = int64(form.keys)
    return begin, end if last is None else tirx.Min(end, work.first + (rows - 1 + last))


def _shifts(form: Attention) -> tuple[int | None, int | None]:
    """Return by how much the first key, and the one after the last, are further than the query; None where not so."""
    if not form.visible:
        return None, None
    first = _find_shift([begin for begin, _ in form.visible], form.keys)
    last = _find_shift([end for _, end in form.visible], form.keys)
    hides_first = first is not None and first > -form.rows + 1
    hides_last = last is not None and last < form.keys
    return first if hides_first else None, last if hides_last else None


def _find_shift(places: Sequence[int], keys: int) -> int | None:
    values, rows = np.array(places), np.arange(len(places))
    for shift in {int(places[0]), int(places[-1]) - len(places) + 1}:
        if np.array_equal(values, np.clip(rows + shift, 0, keys)):
            return shift
    return None
