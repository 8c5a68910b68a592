"""Sums over windows with one operand unfolded (im2col): the elements that a window reads are a row of a matrix.

The matrix is never in memory as a whole: schedules compute only the part that they have in shared memory.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx

from tvmbuild.compiler.schedules.access import Access, uses
from tvmbuild.compiler.schedules.gpu.matrix_axes import order_of
from tvmbuild.compiler.schedules.gpu.sums import inline_around_sum
from tvmbuild.compiler.schedules.nest import view_nest

TOGETHER = 8
"""The largest number of elements that a thread copies together; if fewer than half as many are contiguous, the thread
copies them singly."""


def unfold_windows(function: tirx.PrimFunc) -> tuple[s_tir.Schedule, Any, Any | None, Any] | None:
    """Return the schedule, the sum, the block that writes the output, and the block that unfolds the windows.

    The third is None if the sum itself writes the output. Return None if the function does not have exactly one
    reduction, with exactly one operand that is read by windows or steps.
    """
    sch = s_tir.Schedule(function, error_render_level="none")
    blocks = inline_around_sum(sch, keep_operands=True)
    nest = None if blocks is None else view_nest(sch, blocks[0])
    if blocks is None or nest is None:
        return None
    block, last = blocks
    moved = [load for load in nest.loads if order_of(load, [axis.var for axis in nest.axes]) is None]
    if len(moved) != 1:
        return None
    unfolded = sch.reindex(block, ("read", find_read(sch.get(block), moved[0])))
    for reader in (unfolded, block):
        for maker in sch.get_producers(reader):
            if not sch.get(maker).same_as(sch.get(unfolded)):
                sch.compute_inline(maker)
    return sch, block, last, unfolded


def find_read(block: Any, load: Access) -> int:
    """Return the index of the load's buffer among the block's reads."""
    return next(at for at, region in enumerate(block.reads) if region.source.same_as(load.buffer))


def measure_run(sch: s_tir.Schedule, unfolded: Any, dimension: int) -> int:
    """Return the number of elements along a dimension of the unfolded operand that are contiguous in its source.

    Return 1 if fewer than half of `TOGETHER` are contiguous.
    """
    nest = view_nest(sch, unfolded)
    if nest is None or nest.is_conditional_on(nest.axes[dimension]):
        return 1
    axis = nest.axes[dimension]
    runs = [_measure(load, axis.var) for load in nest.loads]
    run = math.gcd(axis.extent, TOGETHER, *runs)
    return run if run >= TOGETHER // 2 else 1


def _measure(load: Access, var: Any) -> int:
    """Return the extent of the last dimension if the variable is its index; 1 for other uses of it, 0 without a use."""
    at_last = load.stride(var) == 1 and load.indices[-1].same_as(var)
    return load.shape[-1] if at_last else 0 if not any(uses(index, var) for index in load.indices) else 1
