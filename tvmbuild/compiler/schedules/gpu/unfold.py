"""Sums over windows with one operand unfolded (im2col): the elements that a window sees are a row of a matrix.

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
"""The most numbers that a thread copies together; if fewer than half as many are contiguous, it copies them singly."""


def unfold_windows(function: tirx.PrimFunc) -> tuple[s_tir.Schedule, Any, Any | None, Any] | None:
    """Return the schedule, its sum, the block that writes the output (None: the sum), and the one that unfolds windows.

    The result is None without exactly one sum, or without exactly one operand that is read by windows or steps.
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
    """Return the load's index among the block's reads."""
    return next(at for at, region in enumerate(block.reads) if region.source.same_as(load.buffer))


def measure_run(sch: s_tir.Schedule, unfolded: Any, dimension: int) -> int:
    """Return how many elements along a dimension of the unfolded operand are contiguous where they are read."""
    nest = view_nest(sch, unfolded)
    if nest is None or nest.is_conditional_on(nest.axes[dimension]):
        return 1
    axis = nest.axes[dimension]
    runs = [_measure(load, axis.var) for load in nest.loads]
    run = math.gcd(axis.extent, TOGETHER, *runs)
    return run if run >= TOGETHER // 2 else 1


def _measure(load: Access, var: Any) -> int:
    """Return the last dimension's extent if the variable alone moves along it; 1 if it moves elsewhere, else 0."""
    at_last = load.stride(var) == 1 and load.indices[-1].same_as(var)
    return load.shape[-1] if at_last else 0 if not any(uses(index, var) for index in load.indices) else 1
