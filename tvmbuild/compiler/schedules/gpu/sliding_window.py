"""Sums over windows on GPUs (depthwise and first convolutions, pooling): a thread computes neighbouring outputs.

The thread reads the elements that the windows of these outputs share only once, into its registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx

from tvmbuild.compiler.schedules.access import Access, uses
from tvmbuild.compiler.schedules.attempt import ScheduleRefused, try_rule
from tvmbuild.compiler.schedules.gpu.matrix_axes import order_of
from tvmbuild.compiler.schedules.gpu.sums import SHORT, THREADS, TOGETHER, inline_around_sum
from tvmbuild.compiler.schedules.gpu.unfold import find_read
from tvmbuild.compiler.schedules.nest import Axis, Nest, count, require_nest

NEIGHBOURS = {4: (4, 0.0), 2: (1, 0.5), 1: (4, 0.0)}
"""A number of neighbouring outputs that a thread computes → the conditions for it; the most promising number is first.

The conditions are the smallest number of lanes in a vector of channels, and the smallest share of a window that the
next window reads, too.
"""
ENOUGH, ENOUGH_ALONE = 50_000, 35_000
"""The smallest number of threads for this rule, if each computes several outputs, and if each computes one. With fewer
threads, which do not keep the GPU busy, other rules are faster (measured on an H200)."""
LOST = 7
"""The outputs that are computed beyond the end of a row may be at most the row's length divided by this number."""


@dataclass(frozen=True)
class Windows:
    """A function with one sum, whose windows overlap along a row of outputs."""

    sch: s_tir.Schedule
    block: Any
    last: Any
    seen: Any
    """The block that computes or copies the elements that the windows read."""
    extents: tuple[int, ...]
    """The extents of the output's axes."""
    row: int
    """The index of the output axis along which the windows overlap: the row."""
    lanes: int
    """The number of neighbouring outputs along the last axis that a thread computes as a vector; 1 if the row is the
    last axis."""
    seen_in_lanes: bool
    """True if the elements that the windows read are vectors, too; else they are the same for all lanes."""
    row_in_lanes: bool
    """True if the row is the last axis, and the last block goes through all its operands in vectors along it."""
    overlap: float
    """The share of a window that the next window in the row reads, too: 2/3 for three elements in steps of one."""

    def count_threads(self, neighbours: int) -> int:
        """Return the number of threads that have outputs if each computes ``neighbours`` outputs of a row."""
        row = self.extents[self.row]
        return math.prod(self.extents) // row * -(-row // neighbours) // self.lanes


def list_windows(function: tirx.PrimFunc, limit: int, *, only_in_vectors: bool = False) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules, the most promising first.

    Return an empty list if no windows overlap, or if a sum is long. If ``only_in_vectors``, also return an empty list
    if a thread cannot compute a vector of channels.
    """
    windows = try_rule(view_windows, function)
    if windows is None or (only_in_vectors and windows.lanes == 1):
        return []
    shares = [(neighbours, threads) for threads in THREADS for neighbours in _count_neighbours(windows)]
    schedules = (try_rule(slide, windows, *share) for share in shares[:limit])
    return [schedule for schedule in schedules if schedule is not None]


def _count_neighbours(windows: Windows) -> list[int]:
    """Return the numbers of outputs of a thread that are worth a try, the most promising first."""
    row = windows.extents[windows.row]
    fitting = [
        each
        for each, (lanes, overlap) in NEIGHBOURS.items()
        if lanes <= windows.lanes and overlap <= windows.overlap and -row % each * LOST <= row
    ]
    return [each for each in fitting if windows.count_threads(each) >= (ENOUGH if each > 1 else ENOUGH_ALONE)]


def slide(windows: Windows, neighbours: int, threads: int, bind: bool = True) -> s_tir.Schedule:
    """Return the schedule in which each thread computes ``neighbours`` outputs of a row.

    ``threads`` is the number of threads in a block. If ``bind`` is False, threads are loops, which a CPU can run.
    """
    sch, last = windows.sch.copy(), windows.last
    outer = list(sch.get_loops(last))
    outer[windows.row], few = sch.split(outer[windows.row], [None, neighbours])
    inner = [few]
    if windows.lanes > 1:
        outer[-1], lane = sch.split(outer[-1], [None, windows.lanes])
        inner.append(lane)
    sch.reorder(*outer, *inner)
    depth = _place(sch, windows, outer[-1])
    for loop in inner:
        sch.unroll(loop)
    if windows.lanes > 1:
        sch.vectorize(lane)
    elif windows.row_in_lanes and windows.extents[windows.row] % neighbours == 0:
        sch.vectorize(few)
    # Threads come last: TVM does not recognise indices that it has simplified before as parts of each other.
    block, thread = sch.split(sch.fuse(*outer) if len(outer) > 1 else outer[0], [None, threads])
    if bind:
        sch.bind(block, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
    sch.decompose_reduction(windows.block, depth)
    return sch


def _place(sch: s_tir.Schedule, windows: Windows, thread: Any) -> Any:
    """Compute the sums, and the elements that their windows read, in the loop ``thread``.

    Return the outermost reduction loop of the sums.
    """
    for block in (windows.block, windows.seen):
        sch.set_scope(block, 0, "local")
    sch.compute_at(windows.block, thread, preserve_unit_loops=True)
    own = sch.get_loops(windows.block)[-len(sch.get(windows.block).iter_vars) :]
    reduces = [var.iter_type == tirx.IterVar.CommReduce for var in sch.get(windows.block).iter_vars]
    depth = [loop for loop, each in zip(own, reduces, strict=True) if each]
    outputs = [loop for loop, each in zip(own, reduces, strict=True) if not each]
    sch.reorder(*depth, *outputs)
    sch.compute_at(windows.seen, depth[0], preserve_unit_loops=True)
    seen = sch.get_loops(windows.seen)[-len(sch.get(windows.seen).iter_vars) :]
    for loop in (*depth, *outputs, *seen):
        sch.unroll(loop)
    if windows.lanes > 1:
        sch.vectorize(outputs[-1])
    if windows.seen_in_lanes:
        sch.vectorize(seen[-1])
    return depth[0]


def view_windows(function: tirx.PrimFunc) -> Windows:
    """Return the function as a sum over overlapping windows.

    Raises ScheduleRefused if the function has another form, or if a sum is long.
    """
    sch = s_tir.Schedule(function, error_render_level="none")
    blocks = inline_around_sum(sch, keep_operands=True)
    if blocks is None:
        raise ScheduleRefused("it is not one reduction and what surrounds it")
    block, last = blocks
    last = sch.cache_write(block, 0, "local") if last is None else last
    nest, ending = require_nest(sch, block), require_nest(sch, last)
    if count(nest.reduced) > SHORT:
        raise ScheduleRefused(f"it adds up more than {SHORT} elements")
    found = _find_row(nest)
    if found is None:
        raise ScheduleRefused("no windows overlap along a row of its outputs")
    load, row, window = found
    at = _find_in(ending, nest, row)
    if at is None:
        raise ScheduleRefused("what follows the sum does not go along that row")
    is_last = at == len(ending.axes) - 1
    together = math.gcd(ending.axes[-1].extent, TOGETHER)
    in_lanes = nest.is_in_lanes(nest.spatial[-1]) and ending.is_in_lanes(ending.axes[-1])
    lanes = together if in_lanes and not is_last else 1
    return Windows(
        sch,
        block,
        last,
        _find_seen(sch, block, load),
        tuple(axis.extent for axis in ending.axes),
        at,
        lanes,
        lanes > 1 and load.stride(nest.spatial[-1].var) == 1,
        is_last and ending.is_in_lanes(ending.axes[-1]),
        _measure_overlap(load, row, window),
    )


def _find_seen(sch: s_tir.Schedule, block: Any, load: Access) -> Any:
    """Return the block that computes the elements of windows, or a new copy of an input; inline all other operands."""
    seen = None
    for maker in sch.get_producers(block):
        if sch.get(maker).writes[0].source.same_as(load.buffer):
            seen = maker
        else:
            sch.compute_inline(maker)
    if seen is not None:
        return seen
    return sch.cache_read(block, find_read(sch.get(block), load), "local")


def _find_row(nest: Nest) -> tuple[Access, Axis, Axis] | None:
    """Return the load of the windows, the last output axis along which windows move, and the axis within a window.

    Return None if no windows overlap.
    """
    for row in reversed(nest.spatial):
        for load in nest.loads if row.extent > 1 else ():
            moved = [index for index in load.indices if uses(index, row.var)]
            for axis in nest.reduced:
                if axis.extent > 1 and any(uses(index, axis.var) for index in moved):
                    return load, row, axis
    return None


def _measure_overlap(load: Access, row: Axis, window: Axis) -> float:
    """Return the share of a window that the next window in the row reads, too."""
    step, apart = load.stride(row.var), load.stride(window.var)
    if not step or not apart or step % apart:
        return 0.0
    return max(0.0, 1 - step / apart / window.extent)


def _find_in(ending: Nest, nest: Nest, row: Axis) -> int | None:
    """Return the index of the last block's axis that corresponds to the sum's axis ``row``.

    Return None if the last block goes through the outputs in another order.
    """
    if nest.store is None or ending.reduced:
        return None
    reads = [each for each in ending.loads if each.buffer.same_as(nest.store.buffer)]
    stored = _wide_order(nest.store, nest.spatial)
    if stored is None or not reads or any(_wide_order(each, ending.axes) != stored for each in reads):
        return None
    summed, ended = ([axis for axis in each.spatial if axis.extent > 1] for each in (nest, ending))
    same = [axis.extent for axis in summed] == [axis.extent for axis in ended]
    return ending.axes.index(ended[summed.index(row)]) if same else None


def _wide_order(access: Access, axes: Sequence[Axis]) -> list[int] | None:
    """Return the position of each index's axis among the axes of more than one step.

    Return None if an index is neither a constant nor an axis.
    """
    order = order_of(access, [axis.var for axis in axes])
    wide = [at for at, axis in enumerate(axes) if axis.extent > 1]
    return None if order is None else [wide.index(at) for at in order if at in wide]
