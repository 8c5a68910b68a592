"""Sums of products of 8 bits by the target's dot instruction: a tile of sums stays in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import s_tir

from tvmbuild.compiler.dot_instructions import ANNOTATION, GROUP, INSTRUCTIONS
from tvmbuild.compiler.schedules.cpu.dot_intrinsics import register_intrinsics
from tvmbuild.compiler.schedules.cpu.tile import attach_epilogue, finish_epilogue, make_vectors
from tvmbuild.compiler.schedules.cpu.tile_size import MAX_VECTORS, SPARE_REGISTERS, Tile
from tvmbuild.compiler.schedules.nest import (
    Machine,
    Nest,
    count,
    divisors,
    power_of_two_divisor,
    run_parallel,
    view_nest,
)


def schedule_integers(sch: s_tir.Schedule, block: Any, machine: Machine, rank: int = 0) -> bool:
    """Compute a block that names an instruction; False for others."""
    name = sch.get(block).annotations.get(ANNOTATION)
    instruction = next((each for each in INSTRUCTIONS if each.name == name), None)
    nest = None if instruction is None else view_nest(sch, block)
    if nest is None or instruction is None:
        return False
    register_intrinsics()
    tile = _choose_tile(nest, instruction.lanes, machine, rank)
    *outer, across, along = (axis.loop for axis in nest.spatial)
    *sums, step = (axis.loop for axis in nest.reduced)
    far, rows = sch.split(across, [None, tile.rows])
    over, vectors, lane = sch.split(along, [None, tile.vectors, tile.lanes])
    outside = _weights_stay(nest, tile, machine)
    loops = [*outer, over, far] if not outside else [over, *outer, far]
    sch.reorder(*loops, *sums, rows, vectors, lane, step)
    epilogue = attach_epilogue(sch, nest, loops[-1], narrower=tile.width == tile.vector.extent)
    for loop in (rows, vectors):
        sch.unroll(loop)
    _finish_epilogue(sch, sch.get_loops(epilogue)[len(loops) :], tile)
    run_parallel(sch, loops, nest.work // GROUP, machine)
    start = sch.decompose_reduction(block, sums[0])
    make_vectors(sch, sch.get_loops(start)[-3:], tile)
    # By the loop itself it works too, but such a schedule cannot be copied.
    sch.tensorize(sch.blockize(sch.get_loops(block)[-2]), instruction.name)
    return True


def _finish_epilogue(sch: s_tir.Schedule, loops: Sequence[Any], tile: Tile) -> None:
    extent = int(sch.get(loops[-1]).extent)
    if extent == tile.width:
        finish_epilogue(sch, loops, tile)
    elif (lanes := power_of_two_divisor(extent, tile.lanes)) > 1:  # rows are filled up to whole vectors
        make_vectors(sch, [*loops[:-1], *sch.split(loops[-1], [None, lanes])], tile)


def _choose_tile(nest: Nest, lanes: int, machine: Machine, rank: int) -> Tile:
    """Return the tile with the fewest loads a sum, or the next best."""
    across, along = nest.spatial[-2:]
    most = machine.registers - SPARE_REGISTERS
    tiles = [
        Tile(along, lanes, vectors, across, rows)
        for rows in divisors(across.extent, most)
        for vectors in divisors(along.extent // lanes, MAX_VECTORS)
        if rows * vectors <= most
    ]
    ranking = sorted(tiles, key=lambda tile: _cost(tile, machine))
    return ranking[min(rank, len(ranking) - 1)]


def _cost(tile: Tile, machine: Machine) -> tuple[float, int]:
    """Cycles a sum: two sums and two loads a cycle, and a sum waits for the one before it."""
    sums = tile.rows * tile.vectors
    return max(sums / 2, (tile.rows + tile.vectors) / 2, machine.limits.fma_latency + 1) / sums, tile.vectors


def _weights_stay(nest: Nest, tile: Tile, machine: Machine) -> bool:
    """Say whether to stream the data past a block of weights: they overflow the nearest cache, the block does not."""
    weights = count(nest.reduced) * tile.vector.extent
    return weights > machine.limits.near_cache and count(nest.reduced) * tile.width <= 2 * machine.limits.near_cache
