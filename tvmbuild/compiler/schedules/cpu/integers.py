"""The schedule of sums of 8-bit products by the target's dot instruction: a tile of sums stays in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import s_tir

from tvmbuild.compiler.codegen.dot_intrinsics import register_intrinsics
from tvmbuild.compiler.machine.dot_instructions import ANNOTATION, DotInstruction, list_intrinsics
from tvmbuild.compiler.machine.machine import Machine, divisors, power_of_two_divisor
from tvmbuild.compiler.schedules.attempt import ScheduleRefused
from tvmbuild.compiler.schedules.cpu.tile import attach_epilogue, finish_epilogue, make_vectors
from tvmbuild.compiler.schedules.cpu.tile_size import MAX_VECTORS, SPARE_REGISTERS, Tile, is_read_again
from tvmbuild.compiler.schedules.nest import Nest, count, require_nest, run_parallel, view_nest


def schedule_integers(sch: s_tir.Schedule, block: Any, machine: Machine, rank: int = 0) -> None:
    """Schedule a block that names a dot instruction of the machine; ``rank`` 0 is the best tile.

    Raises ScheduleRefused if the block names no instruction, or one of another machine. The latter happens if this
    machine checks the results of a module that was lowered for the other machine.
    """
    name = sch.get(block).annotations.get(ANNOTATION)
    instruction = next((each for each in list_intrinsics() if each.intrinsic == name), None)
    if instruction is None or instruction.name not in machine.dots:
        raise ScheduleRefused("it names no dot instruction of this machine")
    nest = require_nest(sch, block)
    register_intrinsics()
    tile = _choose_tile(nest, instruction, machine, rank)
    outer = [axis.loop for axis in nest.spatial if axis is not tile.vector and axis is not tile.reuse]
    *sums, step = (axis.loop for axis in nest.reduced)
    over, vectors, lane = sch.split(tile.vector.loop, [None, tile.vectors, tile.lanes])
    inner = [vectors, lane]
    if tile.reuse is not None:
        far, rows = sch.split(tile.reuse.loop, [None, tile.rows])
        outer.append(far)
        inner.insert(0, rows)
    wide = None if instruction.data == instruction.tensor else _find_widening(sch, nest, instruction.data)
    stay = wide is None and _weights_stay(nest, tile, machine)
    loops = [over, *outer] if stay else [*outer[:-1], over, *outer[-1:]]
    divided = loops
    if stay and (part := _find_part(sch, nest, tile, outer, machine)) is not None:
        share, rest = sch.split(part, [machine.threads, None])
        loops = [share, over, *(rest if loop is part else loop for loop in outer)]
        divided = loops[:1]
    sch.reorder(*loops, *sums, *inner, step)
    if wide is not None and len(outer) > 1:
        divided = outer[:-1]  # these are the first of the loops, too
        _widen_near(sch, wide, divided[-1], machine)
    epilogue = attach_epilogue(sch, nest, loops[-1], narrower=tile.width == tile.vector.extent)
    for loop in inner[:-1]:
        sch.unroll(loop)
    _finish_epilogue(sch, sch.get_loops(epilogue)[len(loops) :], tile)
    run_parallel(sch, divided, nest.work // instruction.depth, machine)
    start = sch.decompose_reduction(block, [*sums, *inner][0])
    make_vectors(sch, sch.get_loops(start)[-len(inner) :], tile)
    # Tensorizing the loop itself works too, but the resulting schedule cannot be copied.
    sch.tensorize(sch.blockize(sch.get_loops(block)[-2]), instruction.intrinsic)


def _find_widening(sch: s_tir.Schedule, nest: Nest, dtype: str) -> Nest | None:
    """Return the block that converts the data to the instruction's dtype, or None if there is none."""
    for producer in sch.get_producers(nest.block):
        made = view_nest(sch, producer)
        if made is not None and made.store is not None and str(made.store.buffer.dtype) == dtype:
            return made
    return None


def _widen_near(sch: s_tir.Schedule, wide: Nest, loop: Any, machine: Machine) -> None:
    """Widen the rows that a row of the output reads inside ``loop``, so that they stay in the first-level cache."""
    sch.compute_at(wide.block, loop)
    last = sch.get_loops(wide.block)[-1]
    lanes = power_of_two_divisor(int(sch.get(last).extent), machine.lanes(16))
    if lanes > 1:
        sch.vectorize(sch.split(last, [None, lanes])[1])


def _finish_epilogue(sch: s_tir.Schedule, loops: Sequence[Any], tile: Tile) -> None:
    extent = int(sch.get(loops[-1]).extent)
    if extent == tile.width:
        finish_epilogue(sch, loops, tile)
    elif (lanes := power_of_two_divisor(extent, tile.lanes)) > 1:  # rows are filled up to whole vectors
        make_vectors(sch, [*loops[:-1], *sch.split(loops[-1], [None, lanes])], tile)


def _choose_tile(nest: Nest, instruction: DotInstruction, machine: Machine, rank: int) -> Tile:
    """Return the tile with the fewest cycles for each sum, or the tile of rank ``rank`` in this order."""
    *_, along = nest.spatial
    across = nest.spatial[-2] if len(nest.spatial) > 1 else None
    most = machine.registers - SPARE_REGISTERS - instruction.registers
    each = max(1, instruction.lanes * 4 // machine.vector_bytes)
    *before, _ = nest.reduced
    is_shared = any(is_read_again(load, step, across) for load in nest.loads for step in before[-1:])
    of_data = 1 if instruction.steps > 1 or is_shared else 0
    tiles = [
        Tile(along, instruction.lanes, vectors, across, rows)
        for rows in divisors(across.extent if across else 1, most)
        for vectors in divisors(along.extent // instruction.lanes, MAX_VECTORS)
        if rows * (vectors * each + of_data) <= most
    ]
    ranking = sorted(tiles, key=lambda tile: _cost(tile, instruction.steps, machine))
    return ranking[min(rank, len(ranking) - 1)]


def _cost(tile: Tile, steps: int, machine: Machine) -> tuple[float, float]:
    """Return the cycles that a tile takes for each sum, and a measure of its loads.

    The model has two sums and two loads in a cycle, and each step of a sum waits for the one before it.
    """
    sums, loads = tile.rows * tile.vectors, tile.rows / steps + tile.vectors
    cycles = max(sums / 2, loads / 2, machine.limits.fma_latency + 1) / sums
    return cycles, tile.vectors if steps == 1 else loads / sums


def _find_part(sch: s_tir.Schedule, nest: Nest, tile: Tile, outer: Sequence[Any], machine: Machine) -> Any | None:
    """Return the loop over pixels to divide equally among the threads, or None to divide the weights instead.

    The functions before and after are divided by pixels, too, so that data need not come from another core's cache.
    This pays only if the weights are smaller than the data, because every thread then reads all weights.
    """
    sizes = {True: 0, False: count(nest.spatial)}  # bytes of weights and of data; bytes become bytes
    for load in nest.loads:
        sizes[load.stride(tile.vector.var) != 0] += load.elements * load.bits // 8
    if machine.threads == 1 or sizes[True] >= sizes[False]:
        return None
    return next((loop for loop in outer if int(sch.get(loop).extent) % machine.threads == 0), None)


def _weights_stay(nest: Nest, tile: Tile, machine: Machine) -> bool:
    """Return whether a block of weights should stay in the first-level cache while all data are read.

    This is the case if a tile's block of weights fits in the cache, but all weights do not.
    """
    weights = count(nest.reduced) * tile.vector.extent
    return weights > machine.limits.near_cache and count(nest.reduced) * tile.width <= 2 * machine.limits.near_cache
