"""Sums over windows on GPUs (depthwise convolutions, pooling, a picture's first convolution): neighbours in one thread.

A thread computes some neighbouring outputs of a row, and reads what their windows share once, into its registers.
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
"""Outputs of a row that a thread computes, the likeliest first; for channels in vectors of how many, and windows that
share how much of what they see with the next, at least."""
ENOUGH, ENOUGH_ALONE = 50_000, 35_000
"""Threads, of neighbours and of single outputs, that keep a card busy; fewer are slower than other rules' (an H200)."""
LOST = 7
"""One output in so many may lie beyond the end of its row."""


@dataclass(frozen=True)
class Windows:
    """A function of one sum whose windows overlap along a row of outputs, and the block that writes the output."""

    sch: s_tir.Schedule
    block: Any
    last: Any
    seen: Any
    """The block that makes what the windows see."""
    extents: tuple[int, ...]
    """Of the output's axes."""
    row: int
    """Which of them the row is."""
    lanes: int
    """Neighbours along the last of them that all operands have in vectors; 1 where the row is the last."""
    seen_in_lanes: bool
    """Whether what the windows see does so too; else it is the same for all."""
    row_in_lanes: bool
    """Whether the row is the last axis, and what is written there goes through all its operands in vectors."""
    overlap: float
    """How much of what a window sees the next one of the row sees too: 2/3 of three elements in steps of one."""

    def count_threads(self, neighbours: int) -> int:
        """Return how many threads have outputs."""
        row = self.extents[self.row]
        return math.prod(self.extents) // row * -(-row // neighbours) // self.lanes


def list_windows(function: tirx.PrimFunc, limit: int, *, only_in_vectors: bool = False) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules, the most promising first; none where no windows overlap or a sum is long."""
    windows = try_rule(view_windows, function)
    if windows is None or (only_in_vectors and windows.lanes == 1):
        return []
    shares = [(neighbours, threads) for threads in THREADS for neighbours in _count_neighbours(windows)]
    schedules = (try_rule(slide, windows, *share) for share in shares[:limit])
    return [schedule for schedule in schedules if schedule is not None]


def _count_neighbours(windows: Windows) -> list[int]:
    """Return numbers of outputs of a row that are worth a try, the most promising first."""
    row = windows.extents[windows.row]
    fitting = [
        each
        for each, (lanes, overlap) in NEIGHBOURS.items()
        if lanes <= windows.lanes and overlap <= windows.overlap and -row % each * LOST <= row
    ]
    return [each for each in fitting if windows.count_threads(each) >= (ENOUGH if each > 1 else ENOUGH_ALONE)]


def slide(windows: Windows, neighbours: int, threads: int, bind: bool = True) -> s_tir.Schedule:
    """Give each thread so many neighbours of a row; without ``bind`` threads are loops, which a CPU can run."""
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
    # threads come last: TVM's names for what they compute, shortened before, are not seen to be one another's parts
    block, thread = sch.split(sch.fuse(*outer) if len(outer) > 1 else outer[0], [None, threads])
    if bind:
        sch.bind(block, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
    sch.decompose_reduction(windows.block, depth)
    return sch


def _place(sch: s_tir.Schedule, windows: Windows, thread: Any) -> Any:
    """Compute the sums and what they see where the outputs are; return the outermost loop of the sums' depth."""
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
    """Return the function as a sum over overlapping windows; ScheduleRefused where it is none, or a sum is long."""
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
    """Return the block that makes what the windows see, a copy where it is an input; inline what makes the rest."""
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
    """Return the load that is read by windows, the last axis of the output along which they move, and that in them."""
    for row in reversed(nest.spatial):
        for load in nest.loads if row.extent > 1 else ():
            moved = [index for index in load.indices if uses(index, row.var)]
            for axis in nest.reduced:
                if axis.extent > 1 and any(uses(index, axis.var) for index in moved):
                    return load, row, axis
    return None


def _measure_overlap(load: Access, row: Axis, window: Axis) -> float:
    """Return how much of what a window sees the next one of the row sees too."""
    step, apart = load.stride(row.var), load.stride(window.var)
    if not step or not apart or step % apart:
        return 0.0
    return max(0.0, 1 - step / apart / window.extent)


def _find_in(ending: Nest, nest: Nest, row: Axis) -> int | None:
    """Return which axis of the last block is that axis of the sum; None where it goes through the outputs otherwise."""
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
    """Return which of the axes of more than one step each index is; None where one is anything else."""
    order = order_of(access, [axis.var for axis in axes])
    wide = [at for at, axis in enumerate(axes) if axis.extent > 1]
    return None if order is None else [wide.index(at) for at in order if at in wide]
