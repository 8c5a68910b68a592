"""The schedule of long sums in blocks: a block's weights stay in the second-level cache while all rows read them.

Partial sums are accumulated in memory, a tile at a time. Only a search uses this schedule, after it has measured it.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir

from tvmbuild.compiler.machine.machine import Machine, divisors
from tvmbuild.compiler.schedules.attempt import ScheduleRefused
from tvmbuild.compiler.schedules.cpu.padding import find_padding
from tvmbuild.compiler.schedules.cpu.tile import (
    attach_epilogue,
    list_constants,
    make_vectors,
    pack_weights,
    split_loops,
)
from tvmbuild.compiler.schedules.cpu.tile_size import Tile, choose_tile
from tvmbuild.compiler.schedules.nest import Nest, Variant, count, require_nest, run_parallel

SHORTEST, LONGEST = 192, 640
"""The smallest and the largest number of steps in a block; with shorter blocks, loads and stores of the sums cost what
the blocks gain."""


def schedule_blocked(sch: s_tir.Schedule, block: Any, machine: Machine, variant: Variant) -> None:
    """Schedule a product or a 1 x 1 convolution block by block.

    Raises ScheduleRefused if the variant does not ask for it, or if the sum cannot be divided into long blocks.
    """
    if not variant.blocked:
        raise ScheduleRefused("it is a variant that only a search measures")
    nest = require_nest(sch, block)
    constants = list_constants(sch, nest)
    tile = choose_tile(nest, machine, variant.rank, constants)
    if tile is None:
        raise ScheduleRefused("no axis of the output makes vectors")
    size = _choose_block(nest, tile, machine)
    # Overlapping tiles would be added up twice.
    if size is None or tile.overlaps or find_padding(sch, nest, (tile.vector, tile.reuse)) is not None:
        raise ScheduleRefused("the sum is too short to be divided, or its tiles overlap or are padded")
    loops = split_loops(sch, nest, tile, vectors_outside=True)
    chunks = min((each for each in divisors(tile.passes, tile.passes) if each >= machine.threads), default=tile.passes)
    chunk, over = sch.split(loops.outer[0], [chunks, None])
    *short, summed = loops.reduced
    far, near = sch.split(summed, [None, size])
    sch.reorder(chunk, far, over, *loops.outer[1:], *short, near, *loops.tile)
    epilogue = attach_epilogue(sch, nest, chunk)
    make_vectors(sch, loops.tile, tile)
    sch.vectorize(sch.split(sch.get_loops(epilogue)[-1], [None, tile.lanes])[1])
    run_parallel(sch, (chunk,), nest.work, machine)
    sch.decompose_reduction(block, far)
    pack_weights(sch, nest, tile, constants)


def _choose_block(nest: Nest, tile: Tile, machine: Machine) -> int | None:
    """Return the number of steps in a block.

    Return None if a tile's weights stay in the cache anyway, or if no suitable number divides the sum.
    """
    steps = nest.reduced[-1].extent
    if count(nest.reduced) != steps or tile.lanes == 1:
        return None
    if 8 * steps * tile.width * nest.bits // 8 <= machine.limits.far_cache:
        return None
    sizes = [each for each in divisors(steps, min(LONGEST, steps // 2)) if each >= SHORTEST]
    return sizes[-1] if sizes else None
