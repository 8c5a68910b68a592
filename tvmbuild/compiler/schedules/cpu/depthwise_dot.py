"""The schedule of depthwise sums over columns by a dot instruction; interleaved columns stay in a near cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import s_tir

from tvmbuild.compiler.codegen.column_intrinsics import BYTES
from tvmbuild.compiler.codegen.dot_intrinsics import register_intrinsics
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, INSTRUCTIONS, DotInstruction
from tvmbuild.compiler.machine.machine import CHUNKS_PER_THREAD, Machine, divisors
from tvmbuild.compiler.schedules.attempt import ScheduleRefused
from tvmbuild.compiler.schedules.cpu.tile import UNROLLED, attach_epilogue, finish_epilogue, make_vectors
from tvmbuild.compiler.schedules.cpu.tile_size import Tile
from tvmbuild.compiler.schedules.nest import Nest, count, require_nest, run_parallel, view_nest

MAX_ROWS = 8
"""The largest number of rows of the output that are computed together."""
MAX_SUMS = 16
"""The largest number of sums in registers; as many registers are left for weights, which a whole row shares."""
MAX_VECTORS = 3
"""The largest number of vectors of channels that are computed together."""
CACHED = 8
"""The interleaved columns of a part should take at most 1 / CACHED of the second-level cache."""


@dataclass(frozen=True)
class _Part:
    """The columns that are interleaved together, for some rows of the output and some vectors of its channels."""

    rows: int
    vectors: int
    size: int
    """The size of the interleaved columns in bytes."""
    repeated: float
    """The average number of times that a row is interleaved."""
    chunks: int


def schedule_windows(sch: s_tir.Schedule, block: Any, machine: Machine, rank: int = 0) -> None:
    """Schedule a block that names an instruction of the machine for sums over columns.

    ``rank`` chooses the part: 0 is the best one. Raises ScheduleRefused for other blocks.
    """
    name = sch.get(block).annotations.get(ANNOTATION)
    instruction = next((each for each in INSTRUCTIONS if each.of_columns == name), None)
    if instruction is None or instruction.name not in machine.dots:
        raise ScheduleRefused("it names no instruction of this machine that sums over columns")
    nest = require_nest(sch, block)
    if len(nest.spatial) < 2:
        raise ScheduleRefused("it has no rows of pixels")
    register_intrinsics()
    (columns,) = (each for each in sch.get_producers(block) if ANNOTATION in sch.get(each).annotations)
    parts = _list_parts(sch, nest, columns, machine, instruction.lanes)
    part = parts[min(rank, len(parts) - 1)]
    *others, along, channels = nest.spatial
    window = [axis.loop for axis in nest.reduced]
    tile = Tile(channels, instruction.lanes, 1, along, _choose_width(nest))
    outer, near = [axis.loop for axis in others], list[Any]()
    if others:
        outer[-1], row = sch.split(outer[-1], [None, part.rows])
        near.append(row)
    many, vector, lane = sch.split(channels.loop, [None, part.vectors, instruction.lanes])
    over, beside = sch.split(along.loop, [None, tile.rows])
    outer.append(many)
    near += [vector, over]
    sch.reorder(*outer, *near, *window, beside, lane)
    _interleave_near(sch, columns, outer[-1], instruction)
    epilogue = attach_epilogue(sch, nest, over)
    for loop in (*(window if count(nest.reduced) * tile.rows <= UNROLLED else ()), beside):
        sch.unroll(loop)
    finish_epilogue(sch, sch.get_loops(epilogue)[len(outer) + len(near) :], tile)
    run_parallel(sch, outer, nest.work // instruction.depth, machine)
    start = sch.decompose_reduction(block, window[0])
    make_vectors(sch, sch.get_loops(start)[-2:], tile)
    sch.tensorize(sch.blockize(sch.get_loops(block)[-1]), instruction.of_columns)


def _interleave_near(sch: s_tir.Schedule, columns: Any, loop: Any, instruction: DotInstruction) -> None:
    """Interleave the columns that the rows of a part read, padding included, inside ``loop``."""
    sch.compute_at(columns, loop)
    channels = sch.get_loops(columns)[-1]
    sch.vectorize(sch.split(channels, [None, instruction.lanes])[1])


def _list_parts(sch: s_tir.Schedule, nest: Nest, columns: Any, machine: Machine, lanes: int) -> list[_Part]:
    """Return the parts, the best first: those that fit in the cache, then by how often they interleave a row."""
    made = view_nest(sch, columns)
    load = next(each for each in nest.loads if made and made.store and each.buffer.same_as(made.store.buffer))
    *others, _, channels = nest.spatial
    row = math.prod(load.shape[2:])
    window = 1 + sum((load.stride(axis.var) or 0) // row * (axis.extent - 1) for axis in nest.reduced)
    height, down = (others[-1].extent, (load.stride(others[-1].var) or 0) // row) if others else (1, 0)
    parts = []
    for rows in divisors(height, MAX_ROWS):
        for vectors in divisors(channels.extent // lanes, MAX_VECTORS):
            read = (rows - 1) * down + window
            size = read * row // channels.extent * BYTES * vectors * lanes
            chunks = (height // rows) * (channels.extent // lanes // vectors)
            parts.append(_Part(rows, vectors, size, read / rows, chunks))
    most = max(each.chunks for each in parts)
    enough = min(CHUNKS_PER_THREAD * machine.threads, most) if machine.threads > 1 else 1

    def cost(part: _Part) -> tuple[bool, float]:
        idle = 1.5 if part.chunks < enough else 1.0
        return part.size > machine.limits.far_cache // CACHED, part.repeated * (1 + 1 / part.vectors) * idle

    return sorted(parts, key=cost)


def _choose_width(nest: Nest) -> int:
    """Return the number of neighbouring windows with sums in registers: whole sets of windows that share columns."""
    along = nest.spatial[-2].extent
    weights = next(each for each in nest.loads if str(each.buffer.dtype) == "int32")
    shared = int(weights.shape[0])
    if along <= MAX_SUMS:
        return along
    return max(each for each in divisors(along, MAX_SUMS) if each % shared == 0)
