"""The view of a GPU function as one reduction (a sum, a maximum) with the rest inlined, and a rule for short sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.dlight.analysis import normalize_prim_func

from tvmbuild.compiler.schedules.attempt import ScheduleRefused, try_rule
from tvmbuild.compiler.schedules.nest import Nest, require_nest

SHORT = 64
"""The largest number of elements that one thread adds up. DLight gives each output a block of threads, however short
its sum is."""
THREADS = (128, 256, 64)
"""The numbers of threads in a block to try, the most promising first."""
TOGETHER = 4
"""The largest number of neighbouring outputs of a thread: 8 bytes of a float16 operand, 16 bytes of float32."""
LONGEST = 128
"""The largest number of bits that a thread reads or writes at once."""
ENOUGH = 1 << 16
"""The number of threads that keep a GPU busy: threads compute several outputs only if at least as many are left."""
Group = tuple[int, ...]
"""The indices of axes that become one axis."""
Grouping = Callable[[Nest], tuple[Group, ...] | None]


@dataclass(frozen=True)
class Isolated:
    """A function of two blocks: one sums over (group of axes, …, depth), the other writes over (group, …)."""

    sch: s_tir.Schedule
    block: Any
    last: Any
    extents: tuple[int, ...]
    """The extents of each group and of the depth."""
    sum_bytes: int
    beside: int = 1
    """The number of neighbouring outputs, starting at a multiple of it, whose operands are neighbours or the same."""
    run: int = 1
    """The number of steps of the depth, starting at a multiple of it, that are neighbours in one of the operands."""


def list_short_sums(function: tirx.PrimFunc, limit: int, *, only_in_vectors: bool = False) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules in which one thread computes each sum.

    Return an empty list if sums are long, or if the function does not have exactly one reduction. If
    ``only_in_vectors``, also return an empty list if a thread would compute a single output.
    """
    sums = isolate_sum(function, take_outputs)
    if sums is None or sums.extents[1] > SHORT:
        return []
    together = count_together(sums)
    if only_in_vectors and together == 1:
        return []
    shares = list(dict.fromkeys((threads, each) for each in (together, 1) for threads in THREADS))
    schedules = (try_rule(add_up_alone, sums, *share) for share in shares[:limit])
    return [schedule for schedule in schedules if schedule is not None]


def count_together(sums: Isolated) -> int:
    """Return the number of outputs for each thread: as many as fit in a vector, if enough threads are left."""
    together = sums.beside
    while together > 1 and sums.extents[0] // together < ENOUGH:
        together //= 2
    return together


def add_up_alone(sums: Isolated, threads: int, together: int = 1, bind: bool = True) -> s_tir.Schedule:
    """Return the schedule in which each thread computes ``together`` outputs.

    ``threads`` is the number of threads in a block. If ``bind`` is False, threads are loops, which a CPU can run.
    Raises ScheduleRefused if the function has a single output.
    """
    if sums.extents[0] == 1:
        raise ScheduleRefused("it has one output: threads have nothing to divide")
    sch = sums.sch.copy()
    outer, thread, few = sch.split(sch.get_loops(sums.last)[0], [None, threads, together])
    sch.compute_at(sums.block, thread, preserve_unit_loops=True)
    sch.set_scope(sums.block, 0, "local")
    one, depth = sch.get_loops(sums.block)[-2:]
    if together > 1:
        sch.reorder(depth, one)
        sch.vectorize(one)
        sch.vectorize(few)
    sch.unroll(depth)
    if bind:
        sch.bind(outer, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
    sch.decompose_reduction(sums.block, depth)
    return sch


def inline_around_sum(sch: s_tir.Schedule, *, keep_operands: bool = False) -> tuple[Any, Any | None] | None:
    """Inline all blocks except the sum and the one that writes the output; return these two blocks.

    The second one is None if nothing follows the sum, which then writes the output itself. Return None if the function
    does not have exactly one reduction. ``keep_operands`` keeps the blocks that compute the sum's operands.
    """
    infos = normalize_prim_func(sch) or []
    sums = [index for index, info in enumerate(infos) if info.is_reduction()]
    if len(sums) != 1:
        return None
    blocks = [info.block_rv for info in infos]
    block, after = blocks[sums[0]], blocks[sums[0] + 1 :]
    kept = [sch.get(each).name_hint for each in sch.get_producers(block)] if keep_operands else []
    for each in (*blocks[: sums[0]], *after[:-1]):
        if sch.get(each).name_hint not in kept:
            sch.compute_inline(each)
    return block, after[-1] if after else None


def isolate_sum(function: tirx.PrimFunc, group: Grouping) -> Isolated | None:
    """Inline all blocks except the sum and the one that writes the output, and join axes to groups.

    ``group`` returns the groups of axes that become one axis each, or None if the rule cannot use the sum. Return None
    if ``group`` does, or if the function does not have exactly one reduction.
    """
    return try_rule(_isolate, function, group)


def _isolate(function: tirx.PrimFunc, group: Grouping) -> Isolated:
    sch = s_tir.Schedule(function, error_render_level="none")
    blocks = inline_around_sum(sch)
    if blocks is None:
        raise ScheduleRefused("it is not one reduction and what surrounds it")
    block, last = blocks
    last = sch.cache_write(block, 0, "local") if last is None else last
    nest, ending = require_nest(sch, block), require_nest(sch, last)
    if not ending.axes:
        raise ScheduleRefused("its output has no dimensions")
    groups = group(nest)
    depth = tuple(index for index, axis in enumerate(nest.axes) if axis.reduces)
    if groups is None:
        raise ScheduleRefused("its axes are not those that the rule divides")
    if nest.store is None or not join_groups(sch, nest, ending, (*groups, depth)):
        raise ScheduleRefused("what follows the sum takes a part of it, or goes through it in another order")
    sizes = [axis.extent for axis in nest.axes]
    extents = tuple(math.prod(sizes[axis] for axis in each) for each in (*groups, depth))
    beside = min(_count_beside(nest), _count_beside(ending))
    return Isolated(sch, block, last, extents, nest.store.bits // 8, beside, _count_run(nest))


def _count_run(nest: Nest) -> int:
    """Return the number of steps along the innermost reduction axis that are neighbours in an operand."""
    inner = [axis for axis in nest.axes if axis.reduces and axis.extent > 1][-1:]
    return next((axis.extent for axis in inner if any(load.stride(axis.var) == 1 for load in nest.loads)), 1)


def _count_beside(nest: Nest) -> int:
    """Return the number of steps along the last output axis that a thread can take in one vector."""
    wide = [axis for axis in nest.spatial if axis.extent > 1]
    if not wide or not nest.is_in_lanes(wide[-1]):
        return 1
    return math.gcd(wide[-1].extent, min(TOGETHER, LONGEST // nest.bits))


def take_outputs(nest: Nest) -> tuple[Group, ...]:
    """Return one group of all output axes."""
    return (tuple(index for index, axis in enumerate(nest.axes) if not axis.reduces),)


def join_groups(sch: s_tir.Schedule, nest: Nest, ending: Nest, groups: Sequence[Group]) -> bool:
    """Join each group of axes in the sum, in its output and in the last block; the last group is the depth.

    Return False, without a change, if the sum and the last block do not agree on the groups.
    """
    axes = _match(nest, ending, groups[:-1])
    if axes is None or nest.store is None:
        return False
    stored, ended = axes
    change_layout(sch, nest.block, ("write", 0), join_axes(nest.store.shape, stored))
    sch.transform_block_layout(nest.block, join_axes([axis.extent for axis in nest.axes], groups))
    sch.transform_block_layout(ending.block, join_axes([axis.extent for axis in ending.axes], ended))
    return True


def change_layout(sch: s_tir.Schedule, block: Any, buffer: tuple[str, int], index_map: tirx.IndexMap) -> None:
    """Change the layout of a buffer of the block by the map; raise ScheduleRefused if TVM cannot invert the map.

    TVM raises an InternalError for some maps with dimensions of one element.
    """
    try:
        sch.transform_layout(block, buffer, index_map)
    except tvm.error.InternalError as error:
        raise ScheduleRefused(str(error)) from error


def _match(nest: Nest, ending: Nest, groups: Sequence[Group]) -> tuple[list[Group], list[Group]] | None:
    """Return the groups as dimensions of the sum's output and as axes of the last block.

    Return None if the two do not agree. Dimensions of one element belong to the last group.
    """
    if nest.store is None:
        return None
    stored_in = nest.store.buffer
    reads = [find_positions(each.indices, ending) for each in ending.loads if each.buffer.same_as(stored_in)]
    if not reads or any(each != reads[0] for each in reads):
        return None
    positions = find_positions(nest.store.indices, nest)
    full = [index for index, extent in enumerate(nest.store.shape) if extent != 1]
    if any(positions[index] is None or reads[0][index] is None for index in full):
        return None
    if any(
        ending.axes[axis].extent != nest.store.shape[index] for index, axis in enumerate(reads[0]) if axis is not None
    ):
        return None  # it reads only a part of them
    owner = {axis: number for number, group in enumerate(groups) for axis in group}
    owners = [len(groups) - 1 if axis is None else owner[axis] for axis in positions]
    stored = [tuple(index for index, each in enumerate(owners) if each == number) for number in range(len(groups))]
    ended = [tuple(axis for index in group if (axis := reads[0][index]) is not None) for group in stored]
    if sorted(axis for group in ended for axis in group) != list(range(len(ending.axes))):
        return None
    return stored, ended


def find_positions(indices: Sequence[Any], nest: Nest) -> list[int | None]:
    """Return the axis of each index, with None in place of constants and of other expressions."""
    return [next((at for at, axis in enumerate(nest.axes) if axis.var.same_as(index)), None) for index in indices]


def join_axes(extents: Sequence[int], groups: Sequence[Group]) -> tirx.IndexMap:
    """Return the index map that joins each group of axes to one axis."""

    def fuse(*indices: Any) -> list[Any]:
        return [_mix(indices, extents, group) for group in groups]

    return tirx.IndexMap.from_func(fuse, ndim=len(extents), index_dtype="int64")


def _mix(indices: Sequence[Any], extents: Sequence[int], group: Group) -> Any:
    mixed: Any = tirx.IntImm("int64", 0)
    for position, index in enumerate(group):
        mixed = indices[index] if position == 0 else mixed * extents[index] + indices[index]
    return mixed
