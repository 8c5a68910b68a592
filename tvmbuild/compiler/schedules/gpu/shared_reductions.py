"""Rules for reductions whose steps the threads of a block share: maxima, and results that a larger output reads."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx

from tvmbuild.compiler.schedules.attempt import ScheduleRefused, try_rule
from tvmbuild.compiler.schedules.gpu.sums import (
    SHORT,
    Isolated,
    find_positions,
    inline_around_sum,
    isolate_sum,
    take_outputs,
)
from tvmbuild.compiler.schedules.gpu.tiles import MAX_BLOCKS
from tvmbuild.compiler.schedules.nest import Nest, require_nest

THREADS, MANY_THREADS, MOST_THREADS = 256, 512, 1024
"""The number of threads in a block, in one that computes long sums, and in one that repeats a long reduction for
channels."""
STEPS = 4
"""The number of steps of the reduction that a thread should have at least; with fewer, combining threads costs more."""
WARP = 32
SECTOR, FLOAT32 = 256, 32
"""The number of neighbouring bits that a card reads at least, and those of a float32."""
BUSY = 256
"""The number of blocks that keep a card busy: blocks are made of fewer outputs if fewer blocks would be left."""
BROADCAST = 4
"""The number of elements for each result from which on the results are computed again in each block."""
ELEMENTS, FEW_ELEMENTS = 16, 4
"""The largest number of elements of the output that a thread writes, and of those that depend on a short reduction for
channels: a thread has little to repeat."""
LONG_SUM = 256
"""The number of steps from which on a block's threads share sums whose outputs are neighbours, as means over pixels in
NHWC have. DLight gives such a sum 16 threads."""
LONGEST = 1 << 14
"""The largest number of steps of a reduction that several blocks repeat."""


def list_shared_reductions(function: tirx.PrimFunc) -> list[s_tir.Schedule]:
    """Return schedules of a function with one reduction that DLight schedules badly.

    DLight gives one thread to each output of a reduction that is not a sum, unless the last axes are reduced, and few
    blocks to a function whose results are read by a larger output.
    """
    made = try_rule(broadcast_in_blocks, function)
    if made is None and (shared := try_rule(share_steps, function)) is not None:
        made = [shared]
    return made or []


def broadcast_in_blocks(function: tirx.PrimFunc) -> list[s_tir.Schedule]:
    """Return the schedules in which each block computes the results that its part of a larger output reads.

    Squeeze-and-excite ends so: a product gives a factor for each channel, which multiplies all pixels. So do the means
    of an instance normalisation. A long reduction for channels has a second schedule with fewer threads, for targets
    that do not have as many. Raises ScheduleRefused if the output is not larger than the results, or reads them in
    another way.
    """
    sch = s_tir.Schedule(function, error_render_level="none")
    block, last = _find_blocks(sch)
    if last is None:
        raise ScheduleRefused("nothing follows the reduction")
    nest, ending = require_nest(sch, block), require_nest(sch, last)
    if _count(nest, reduces=True) > LONGEST:
        raise ScheduleRefused("the reduction is too long to be repeated")
    if _count(ending, reduces=False) < max(BROADCAST * _count(nest, reduces=False), 2 * THREADS):
        raise ScheduleRefused("its output is not larger than its results")
    own = find_axes(nest, ending)
    others = [index for index in range(len(ending.axes)) if index not in own]
    if others != list(range(others[0], others[-1] + 1)):
        raise ScheduleRefused("the axes of its results lie between others")
    if len(ending.axes) - others[-1] > 2:
        raise ScheduleRefused("neighbouring threads would need results of several rows")
    if others[-1] == len(ending.axes) - 1:
        _give_blocks_results(sch, nest, ending, own)
        return [sch]
    counts = (MOST_THREADS, THREADS) if _count(nest, reduces=True) >= MOST_THREADS else (THREADS,)
    return [_give_lanes_results(sch.copy(), nest, ending, others, each) for each in counts]


def _limit_blocks(blocks: int) -> int:
    """Return the number of blocks along the grid's second axis; raise ScheduleRefused if no card launches as many."""
    if blocks > MAX_BLOCKS:
        raise ScheduleRefused("its grid would be too large")
    return blocks


def find_axes(nest: Nest, ending: Nest) -> list[int]:
    """Return the axes of the last block that run through the results; raise ScheduleRefused if there are no such."""
    if nest.store is None:
        raise ScheduleRefused("its results are not a single plain store")
    stored_in = nest.store.buffer
    reads = [find_positions(each.indices, ending) for each in ending.loads if each.buffer.same_as(stored_in)]
    if not reads or any(each != reads[0] for each in reads):
        raise ScheduleRefused("it reads its results in several ways")
    own = [axis for axis, extent in zip(reads[0], nest.store.shape, strict=True) if extent != 1]
    found = [axis for axis in own if axis is not None]
    whole = [ending.axes[axis].extent for axis in found] == [extent for extent in nest.store.shape if extent != 1]
    if len(found) != len(own) or found != sorted(found) or not whole:
        raise ScheduleRefused("it reads a part of its results, or in another order")
    return found


def _give_blocks_results(sch: s_tir.Schedule, nest: Nest, ending: Nest, own: list[int]) -> None:
    """Give each result a block, or several if its part of the output is large; all threads share its steps."""
    loops = [axis.loop for axis in ending.axes]
    results = sch.fuse(*loops[: len(own)]) if own else sch.add_unit_loop(loops[0])
    elements = math.prod(axis.extent for axis in ending.axes[len(own) :])
    threads = min(THREADS, max(WARP, 1 << (elements - 1).bit_length()))
    blocks = _limit_blocks(-(-elements // (threads * ELEMENTS)))
    part, _, thread = sch.split(sch.fuse(*loops[len(own) :]), [blocks, None, threads])
    sch.bind(results, "blockIdx.x")
    sch.bind(part, "blockIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.compute_at(nest.block, part, preserve_unit_loops=True)
    sch.set_scope(nest.block, 0, "local")
    _, step = sch.split(sch.fuse(*sch.get_loops(nest.block)[-len(nest.reduced) :]), [None, threads])
    sch.bind(step, "threadIdx.x")


def _give_lanes_results(
    sch: s_tir.Schedule, nest: Nest, ending: Nest, others: list[int], threads: int
) -> s_tir.Schedule:
    """Give neighbouring threads the results of neighbouring channels, and the threads above them the same results.

    ``others`` are the axes with the same results; axes before them, such as pictures, have blocks of their own.
    """
    loops = [axis.loop for axis in ending.axes]
    before, same, channels = loops[: others[0]], loops[others[0] : others[-1] + 1], loops[others[-1] + 1 :]
    count = math.prod(axis.extent for axis in ending.axes[others[-1] + 1 :])
    is_short = _count(nest, reduces=True) < MOST_THREADS
    bits = ending.store.bits if is_short and ending.store is not None else FLOAT32
    width, elements = min(SECTOR // bits, 1 << (count - 1).bit_length()), FEW_ELEMENTS if is_short else ELEMENTS
    above = threads // width
    _limit_blocks(math.prod(ending.axes[axis].extent for axis in others) // (elements * above) + 1)
    picture = sch.fuse(*before) if before else sch.add_unit_loop(loops[0])
    tile, lane = sch.split(sch.fuse(*channels), [None, width])
    part, each, row = sch.split(sch.fuse(*same), [None, elements, above])
    sch.reorder(picture, tile, part, each, row, lane)
    outer = sch.fuse(picture, tile)
    for loop, tag in ((outer, "blockIdx.x"), (part, "blockIdx.y"), (row, "threadIdx.y"), (lane, "threadIdx.x")):
        sch.bind(loop, tag)
    sch.compute_at(nest.block, part, preserve_unit_loops=True)
    sch.set_scope(nest.block, 0, "local")
    inner = sch.get_loops(nest.block)[2:]
    lanes, steps = inner[: len(inner) - len(nest.reduced)], inner[len(inner) - len(nest.reduced) :]
    _, step = sch.split(sch.fuse(*steps), [None, above])
    sch.bind(step, "threadIdx.y")
    sch.bind(sch.fuse(*lanes), "threadIdx.x")
    return sch


def share_steps(function: tirx.PrimFunc) -> s_tir.Schedule:
    """Return the schedule in which the threads of a block share the steps of a reduction.

    Raises ScheduleRefused for reductions of few steps, and for the sums that DLight schedules well.
    """
    sch = s_tir.Schedule(function, error_render_level="none")
    block, last = _find_blocks(sch)
    nest = require_nest(sch, block)
    is_sum, steps = _is_sum(sch, block), _count(nest, reduces=True)
    ending = None if last is None else require_nest(sch, last)
    if ending is not None and (not ending.axes or (steps <= SHORT and _count(ending, reduces=False) == 1)):
        return _reduce_to_scalar(sch, block, last, steps)
    if steps <= (LONG_SUM if is_sum else SHORT):
        raise ScheduleRefused("few threads compute each output as fast")
    if last is None and _count(nest, reduces=False) == 1 and not is_sum:
        return _reduce_to_scalar(sch, block, last, steps)
    isolated = isolate_sum(function, take_outputs)
    if isolated is None:
        raise ScheduleRefused("what follows the reduction takes a part of it, or goes through it in another order")
    if is_sum and isolated.run > 1:
        raise ScheduleRefused("its steps are neighbours in memory, as in the sums for which DLight has a rule")
    return _share(isolated, MANY_THREADS if is_sum else THREADS)


def _share(reduction: Isolated, threads: int) -> s_tir.Schedule:
    sch, (outputs, depth) = reduction.sch.copy(), reduction.extents
    is_row = reduction.run > 1  # neighbours in memory are steps, not outputs
    width = 1 if is_row else WARP if outputs >= BUSY * WARP else SECTOR // FLOAT32
    share = min(threads // width, max(WARP, 1 << ((depth - 1) // STEPS).bit_length()))
    width = min(threads // share, outputs) if is_row else width
    across, along = ("threadIdx.y", "threadIdx.x") if is_row else ("threadIdx.x", "threadIdx.y")
    outer, one = sch.split(sch.get_loops(reduction.last)[0], [None, width])
    sch.bind(outer, "blockIdx.x")
    sch.bind(one, across)
    sch.compute_at(reduction.block, one, preserve_unit_loops=True)
    sch.set_scope(reduction.block, 0, "local")
    _, step = sch.split(sch.get_loops(reduction.block)[-1], [None, share])
    sch.bind(step, along)
    return sch


def _reduce_to_scalar(sch: s_tir.Schedule, block: Any, last: Any | None, steps: int) -> s_tir.Schedule:
    """Give one block of threads the reduction, and what follows it; there are no threads without a step."""
    if last is None:
        outer = sch.add_unit_loop(sch.get_loops(block)[0])
    else:
        loops = sch.get_loops(last)
        outer = sch.fuse(*loops) if loops else sch.add_unit_loop(last)
        sch.compute_at(block, outer, preserve_unit_loops=True)
        sch.set_scope(block, 0, "local")
    threads = min(THREADS, 1 << (steps - 1).bit_length())
    _, step = sch.split(sch.fuse(*sch.get_loops(block)[1:]), [None, threads])
    sch.bind(step, "threadIdx.x")
    sch.bind(outer, "blockIdx.x")
    return sch


def _find_blocks(sch: s_tir.Schedule) -> tuple[Any, Any | None]:
    blocks = inline_around_sum(sch)
    if blocks is None:
        raise ScheduleRefused("it is not one reduction and what surrounds it")
    return blocks


def _count(nest: Nest, *, reduces: bool) -> int:
    return math.prod(axis.extent for axis in nest.axes if axis.reduces == reduces)


def _is_sum(sch: s_tir.Schedule, block: Any) -> bool:
    """Return whether the block adds up; its body is a plain store."""
    body = sch.get(block).body
    return isinstance(body, tirx.BufferStore) and isinstance(body.value, tirx.Add)
