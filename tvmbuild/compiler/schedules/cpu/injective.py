"""The schedule of blocks without a reduction: the innermost loop becomes vectors, and threads share the outer loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import s_tir

from tvmbuild.compiler.machine.dot_instructions import ANNOTATION
from tvmbuild.compiler.machine.machine import Machine, divisors, power_of_two_divisor
from tvmbuild.compiler.schedules.access import Access
from tvmbuild.compiler.schedules.attempt import ScheduleRefused
from tvmbuild.compiler.schedules.cpu.overlap import allow_overlap
from tvmbuild.compiler.schedules.cpu.partition import PARTITIONED
from tvmbuild.compiler.schedules.nest import MAX_TOGETHER, Axis, Nest, count, require_nest, run_parallel, view_nest

TRANSPOSE_TILE = 16
"""The number of elements on a side of a transpose's tile: a cache line of float32, so that lines are used whole."""
LANES = 8
"""The number of lanes of a vectorised transpose; a set of the first-level cache has at least as many lines."""
SHORT_BRANCH = 64
"""The number of elements from which LLVM makes enough vectors of a branch along an axis."""
MIN_LANES = 4
"""The least number of lanes of a vector that is shorter than the machine's: its operands' places take time, too."""
PAGE = 4096
"""The distance in bytes at which two addresses are in the same set of the first-level cache."""


def inline_blocks(sch: s_tir.Schedule) -> None:
    """Inline the blocks whose elements cost less to compute again than to store."""
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        if _is_worth_inlining(sch, block):
            try:
                sch.compute_inline(block)
            except (s_tir.ScheduleError, TypeError):
                # Its form cannot be inlined, or its indices are int32 and int64, which TVM's simplifier may refuse to
                # compare (grouped convolutions with dilation). The block stays separate.
                continue


def _is_worth_inlining(sch: s_tir.Schedule, block: Any) -> bool:
    nest = view_nest(sch, block)
    if nest is None or nest.store is None or nest.reduced or (nest.calls and not nest.axes):
        return False  # a scalar that calls a function, too: once is enough
    consumers = [view_nest(sch, consumer) for consumer in sch.get_consumers(block)]
    if not consumers or _is_given(sch, block):
        return False
    for consumer in consumers:
        if consumer is None or consumer.store is None or _may_not_precede(nest, consumer):
            return False
    return len(consumers) == 1 or nest.calls == 0


def _keeps_functions_from_vectors(nest: Nest, consumer: Nest) -> bool:
    """Return whether functions, which take long one by one, would get no vectors if the block were inlined.

    Features of places are an example: sin and cos of the products of 3 coordinates and 6 frequencies, in turn along an
    axis of 36.
    """
    if not nest.axes or not consumer.axes:
        return False
    last = nest.axes[-1]
    if nest.calls:
        branches = consumer.is_conditional_on(consumer.axes[-1])
        return branches and last.extent < SHORT_BRANCH and last.extent % LANES != 0
    return consumer.calls > 0 and _varies(nest, last)


def _varies(nest: Nest, last: Axis) -> bool:
    """Return whether a load moves along the last axis by steps that vary, also within each few of them."""
    return any(load.stride(last.var) is None for load in nest.loads) and nest.find_piece(last) < MIN_LANES


def _is_given(sch: s_tir.Schedule, block: Any) -> bool:
    """Return whether the block names the instruction that computes it."""
    return ANNOTATION in sch.get(block).annotations


def _may_not_precede(nest: Nest, consumer: Nest) -> bool:
    if consumer.reduced:
        return not _may_precede_reduction(nest, consumer)
    return _keeps_functions_from_vectors(nest, consumer)


def _may_precede_reduction(nest: Nest, consumer: Nest) -> bool:
    """Return whether the block may be inlined into a reduction.

    A copy may be inlined, and another block only if the reduction reads other elements of it along each of its axes.
    Padding of the input of a depthwise convolution or a pooling is inlined: a separate pass, even one over a few rows
    at a time, costs more than the branches (mobilenet_v2 by rule: 4.99 ms inlined, 5.98 ms with the pass).
    """
    if nest.is_copy:
        return True
    written = nest.store.buffer if nest.store else None
    reads = [load for load in consumer.loads if load.buffer.same_as(written)]
    return all(read.stride(axis.var) != 0 for read in reads for axis in consumer.axes if axis.extent > 1)


def schedule_injective(sch: s_tir.Schedule, block: Any, machine: Machine) -> None:
    """Vectorise a block without a reduction, and divide it among threads; raise ScheduleRefused for other blocks."""
    nest = require_nest(sch, block)
    if nest.reduced:
        raise ScheduleRefused("it is a reduction")
    if nest.store is None or not nest.axes:
        raise ScheduleRefused("it has no loops, or stores nothing")
    last = nest.axes[-1]
    if _is_flat(nest) and not _fills_vectors_along(nest, last, machine):
        _schedule_flat(sch, nest, machine)
        return
    outer = [axis.loop for axis in nest.axes[:-1]]
    crossed = _crossing_axis(nest, last)
    if nest.is_conditional_on(last):
        together = last.extent if last.extent <= MAX_TOGETHER else nest.find_period(last)
        part = nest.find_part(last)
        if part >= machine.lanes(nest.bits) and last.extent <= part * MAX_TOGETHER:
            # A concatenation of whole vectors: its parts have no branches, and no loop needs to be split by TVM.
            sch.unroll(sch.split(last.loop, [None, part])[0])
        elif together > 1:
            # Several inputs in turn, or shuffled channels: each branch has its place in the loop.
            sch.unroll(sch.split(last.loop, [None, together])[1])
        elif nest.has_fixed_branches(last):
            # Concatenations and paddings: one loop for each branch, without branches.
            sch.annotate(last.loop, PARTITIONED, 1)
    elif crossed is not None:
        outer = _tile_transpose(sch, nest, crossed)
    else:
        outer += _vectorise(sch, nest, last, machine)
    run_parallel(sch, outer, nest.work, machine)


def _is_flat(nest: Nest) -> bool:
    """Return whether all tensors are read and written in memory order, so that the shape does not matter."""
    if nest.conditions or nest.store is None:
        return False
    step = 1
    for axis in reversed(nest.axes):
        strides = [load.stride(axis.var) for load in nest.loads]
        if nest.store.stride(axis.var) != step or any(stride != step for stride in strides if axis.extent > 1):
            return False
        step *= axis.extent
    return True


def _fills_vectors_along(nest: Nest, last: Axis, machine: Machine) -> bool:
    """Return whether to make vectors along the last axis, where the last vector overlaps the vector before.

    This is better if all axes together are not a multiple of half a vector, and the last axis has at least two vectors.
    """
    width = machine.lanes(nest.bits)
    return len(nest.axes) > 1 and 2 * power_of_two_divisor(count(nest.axes), width) < width <= last.extent // 2


def _schedule_flat(sch: s_tir.Schedule, nest: Nest, machine: Machine) -> None:
    total = count(nest.axes)
    loop = sch.fuse(*(axis.loop for axis in nest.axes)) if len(nest.axes) > 1 else nest.axes[0].loop
    lanes = power_of_two_divisor(total, machine.lanes(nest.bits))
    if lanes > 1:
        outer, inner = sch.split(loop, [None, lanes])
        sch.vectorize(inner)
        run_parallel(sch, [outer], nest.work, machine)
        return
    # An odd number of elements: LLVM turns a plain loop into vectors and a remainder.
    inner_extent = max((each for each in range(32, 2048) if total % each == 0), default=0)
    if inner_extent:
        outer, _ = sch.split(loop, [None, inner_extent])
        run_parallel(sch, [outer], nest.work, machine)


def _vectorise(sch: s_tir.Schedule, nest: Nest, last: Axis, machine: Machine) -> list[Any]:
    """Vectorise the innermost loop if its extent allows it; else LLVM vectorises it, with a remainder.

    Return the loops that threads may share with the outer ones: the loop around the vectors, or none.
    """
    if nest.store is None or nest.store.stride(last.var) != 1:
        return [last.loop]
    width = machine.lanes(nest.bits)
    if any(load.stride(last.var) not in {0, 1} for load in nest.loads):
        lanes = power_of_two_divisor(nest.find_piece(last), width)
        if lanes < MIN_LANES:
            return [last.loop]
        outer, inner = sch.split(last.loop, [None, lanes])
        sch.vectorize(inner)
        return [outer]
    lanes = power_of_two_divisor(last.extent, width)
    if 2 * lanes < width <= last.extent and not any(access.is_bool for access in (nest.store, *nest.loads)):
        outer, inner = sch.split(last.loop, [None, width])
        sch.vectorize(inner)
        allow_overlap(sch, [nest.block])
        return [outer]
    if lanes == 1 or 2 * lanes < min(width, last.extent):
        return []
    outer, inner = sch.split(last.loop, [None, lanes])
    sch.vectorize(inner)
    return [outer]


def _crossing_axis(nest: Nest, last: Axis) -> Axis | None:
    """Return the axis along which a transpose reads contiguous memory while it writes across it, or None."""
    for load in nest.loads:
        if (load.stride(last.var) or 0) > 1:
            for axis in nest.axes[:-1]:
                if load.stride(axis.var) == 1 and axis.extent >= TRANSPOSE_TILE // 2:
                    return axis
    return None


def _tile_transpose(sch: s_tir.Schedule, nest: Nest, crossed: Axis) -> list[Any]:
    """Tile the last axis and the crossed one, with vectors along one of them; return the loops around the tiles.

    Without vectors LLVM may go through a tile along either axis, and then touches as many cache lines at each step as
    the tile has rows. If a row is a page long, all these lines are in one set of the cache.
    """
    last = nest.axes[-1]
    along = crossed if _is_page(nest.loads, last) and not _is_page(nest.accesses[-1:], crossed) else last
    lanes = power_of_two_divisor(along.extent, LANES)
    is_smooth = 2 * lanes >= LANES and nest.calls == 0 and not any(access.is_bool for access in nest.accesses)
    outer, inner = list[Any](), list[Any]()
    for axis in nest.axes:
        if axis in (crossed, last):
            tile = max(divisors(axis.extent, LANES if is_smooth else TRANSPOSE_TILE))
            far, near = sch.split(axis.loop, [None, lanes if is_smooth and axis is along else tile])
            outer.append(far)
            inner.insert(0 if is_smooth and axis is not along else len(inner), near)
        else:
            outer.append(axis.loop)
    sch.reorder(*outer, *inner)
    if is_smooth:
        sch.vectorize(inner[-1])
    return outer


def _is_page(accesses: Sequence[Access], axis: Axis) -> bool:
    """Return whether neighbours along the axis are whole pages apart, and therefore in the same set of the cache."""
    steps = [(access.stride(axis.var) or 0) * access.bits // 8 for access in accesses]
    return any(step and step % PAGE == 0 for step in steps)
