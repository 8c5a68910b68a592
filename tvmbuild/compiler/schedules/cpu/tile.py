"""The schedule by register tiles, for reductions with a contiguous output: convolutions, matrix products, pooling.

A tile of the output stays in registers while the reduction runs; the epilogue (bias, activation) works on the tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx

from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.schedules.access import Access, collect, uses
from tvmbuild.compiler.schedules.attempt import REFUSALS, ScheduleRefused
from tvmbuild.compiler.schedules.cpu.halves import adds_up_halves, split_sum, view_narrow
from tvmbuild.compiler.schedules.cpu.overlap import allow_overlap
from tvmbuild.compiler.schedules.cpu.packing import choose_packed_tile
from tvmbuild.compiler.schedules.cpu.padding import find_padding, pad_near
from tvmbuild.compiler.schedules.cpu.phases import has_unequal_windows
from tvmbuild.compiler.schedules.cpu.prefetch import ask_for_prefetch, count_steps
from tvmbuild.compiler.schedules.cpu.tile_size import Tile, vectors_go_outside
from tvmbuild.compiler.schedules.nest import Axis, Nest, Variant, count, require_nest, run_parallel, view_nest

UNROLLED = 400
"""The largest number of instructions for which the loops over a window (3 x 3, for example) are unrolled, so that
overlapping loads are done once."""


_LONG_SUM = 64
"""The smallest number of steps of a sum whose epilogue may be a loop over the rows of a tile. This loop needs the sums
in memory; the epilogue of a shorter sum is unrolled."""


def schedule_tiled(sch: s_tir.Schedule, block: Any, machine: Machine, variant: Variant) -> None:
    """Schedule the block, and the elementwise block that follows it, in register tiles.

    Raises ScheduleRefused if no axis of the output can be vectorised.
    """
    nest = require_nest(sch, block)
    constants = list_constants(sch, nest)
    is_narrow = adds_up_halves(sch, nest, machine)
    seen = view_narrow(nest) if is_narrow else nest
    tile = choose_packed_tile(seen, machine, variant.rank, constants)
    if tile is None:
        raise ScheduleRefused("no axis of the output makes vectors")
    padding = find_padding(sch, nest, (tile.vector, tile.reuse))
    if padding is not None and padding.is_best_near is variant.flip_padding:
        padding = None
    outside = padding is not None or vectors_go_outside(nest, tile, machine) is not variant.swap_outer_loops
    loops = split_loops(sch, nest, tile, vectors_outside=outside)
    summed = split_sum(sch, loops.reduced) if is_narrow else list(loops.reduced)
    outer = loops.outer if padding is None else pad_near(sch, padding, loops.outer, machine)
    epilogue = attach_epilogue(sch, nest, outer[-1])
    if count(nest.reduced) * tile.rows * tile.vectors <= UNROLLED and not has_unequal_windows(sch, block):
        for loop in summed:
            sch.unroll(loop)
    make_vectors(sch, loops.tile, tile)
    rows = sch.get_loops(epilogue)[len(outer) :]
    is_rolled = count(nest.reduced) >= _LONG_SUM and _is_long(sch, epilogue)
    finish_epilogue(sch, rows[-1:] if is_rolled else rows, tile)
    turns = math.prod(int(sch.get(loop).extent) for loop in outer[1:])
    run_parallel(sch, outer if padding is None else outer[:1], nest.work, machine)
    if outside and len(loops.reduced) == 1 and any(_is_far(load, machine) for load in constants):
        summed = ask_for_prefetch(sch, summed, count_steps(turns, tile.width, seen.bits))
    # Last, because a decomposed reduction no longer counts as one, and its loops cannot be changed.
    start = sch.decompose_reduction(block, summed[0])
    if tile.overlaps:
        allow_overlap(sch, (start, block, epilogue))
    pack_weights(sch, nest, tile, constants)


def _is_long(sch: s_tir.Schedule, epilogue: Any) -> bool:
    """Return whether the epilogue calls functions and therefore takes many instructions, so that a loop is faster.

    In a loop over rows, the epilogue's constants stay in registers, and its code in the cache of decoded instructions.
    """
    body = sch.get(epilogue).body
    return isinstance(body, tirx.BufferStore) and collect(body.value).calls > 0


def _is_far(load: Access, machine: Machine) -> bool:
    """Return whether the tensor is read from memory or from a cache that all cores share, by its size."""
    return load.elements * load.bits // 8 > machine.limits.far_cache


@dataclass(frozen=True)
class Loops:
    """The loops around a block, outermost first: loops over tiles, loops of the sum, loops of one tile."""

    outer: tuple[Any, ...]
    reduced: tuple[Any, ...]
    tile: tuple[Any, ...]


def split_loops(sch: s_tir.Schedule, nest: Nest, tile: Tile, *, vectors_outside: bool) -> Loops:
    """Move the loops of the tile inside those of the sum.

    ``vectors_outside`` makes the loop over tiles along the vector axis the outermost one, else it is the innermost
    loop over tiles.
    """
    over_vectors, vectors, lanes = sch.split(tile.vector.loop, [None, tile.vectors, tile.lanes])
    inner = [vectors, lanes]
    others = [axis for axis in nest.spatial if axis is not tile.vector and axis is not tile.reuse]
    if vectors_outside and not has_unequal_windows(sch, nest.block):  # phases would be unequal parts for threads
        others.sort(key=lambda axis: not _moves_weights(nest, tile, axis))
    loops = [axis.loop for axis in others]
    if tile.reuse:
        over_rows, rows = sch.split(tile.reuse.loop, [None, tile.rows])
        loops.append(over_rows)
        inner.insert(0, rows)
    loops = [over_vectors, *loops] if vectors_outside else [*loops, over_vectors]
    reduced = [axis.loop for axis in nest.reduced]
    sch.reorder(*loops, *reduced, *inner)
    return Loops(tuple(loops), tuple(reduced), tuple(inner))


def _moves_weights(nest: Nest, tile: Tile, axis: Axis) -> bool:
    """Return whether each step along the axis reads other weights."""
    return any(
        load.stride(tile.vector.var) == 1 and load.stride(axis.var) != 0
        for load in nest.loads
        if tile.reuse is not None and load.stride(tile.reuse.var) == 0
    )


def attach_epilogue(sch: s_tir.Schedule, nest: Nest, loop: Any, *, narrower: bool = False) -> Any:
    """Compute the epilogue, or a copy to the output, inside ``loop``; return the block of the epilogue or copy.

    ``narrower`` also allows an epilogue that reads only the first elements of each row.
    """
    consumers = sch.get_consumers(nest.block)
    if len(consumers) == 1 and len(sch.get_producers(consumers[0])) == 1:  # TVM wants all of them in the loop
        _split_axes(sch, nest, consumers[0])
        follower = view_nest(sch, consumers[0])
        if follower is not None and follower.store is not None and _is_elementwise(nest, follower, narrower):
            sch.reverse_compute_at(consumers[0], loop)
            return consumers[0]
    copy = sch.cache_write(nest.block, 0, "global")
    sch.reverse_compute_at(copy, loop)
    return copy


def _split_axes(sch: s_tir.Schedule, nest: Nest, follower: Any) -> None:
    """Split axis x of the follower like two axes of the nest if the follower reads them at ``x // n`` and ``x % n``."""
    view = view_nest(sch, follower)
    reads = [load for load in view.loads if nest.store and load.buffer.same_as(nest.store.buffer)] if view else []
    if len(reads) != 1 or not any(isinstance(index, tirx.FloorMod) for index in reads[0].indices):
        return
    variables = [var.var for var in sch.get(follower).iter_vars]
    indices = [index for index in reads[0].indices if any(uses(index, var) for var in variables)]

    index_map = tirx.IndexMap(variables, indices, None)
    places = [tirx.Var(f"i{at}", "int64") for at in range(len(reads[0].indices))]
    same = tirx.IndexMap(places, places, None)

    def split(own: s_tir.Schedule) -> None:
        own.transform_block_layout(follower, index_map)
        own.transform_layout(nest.block, ("write", 0), same)

    try:
        split(sch.copy())  # a refusal would leave it partly changed
    except REFUSALS:
        return
    split(sch)


def _is_elementwise(nest: Nest, follower: Nest, narrower: bool) -> bool:
    """Return whether the follower reads each element of the nest's output once, at the index at which it writes."""
    if follower.reduced or nest.store is None or follower.store is None:
        return False
    reads = [load for load in follower.loads if load.buffer.same_as(nest.store.buffer)]
    own, theirs = ([axis.extent for axis in _long(axes)] for axes in (nest.spatial, follower.axes))
    if len(own) != len(theirs):
        return False
    if own != theirs and not (narrower and own[:-1] == theirs[:-1] and own[-1] > theirs[-1]):
        return False
    return all(
        read.stride(axis.var) == follower.store.stride(axis.var) == nest.store.stride(own.var)
        for read in reads
        for axis, own in zip(_long(follower.axes), _long(nest.spatial), strict=True)
    )


def _long(axes: tuple[Axis, ...]) -> list[Axis]:
    return [axis for axis in axes if axis.extent > 1]


def make_vectors(sch: s_tir.Schedule, loops: Sequence[Any], tile: Tile) -> None:
    """Vectorise the last loop, and unroll the others."""
    for loop in loops[:-1]:
        sch.unroll(loop)
    if tile.lanes > 1:
        sch.vectorize(loops[-1])
    else:
        sch.unroll(loops[-1])


def finish_epilogue(sch: s_tir.Schedule, loops: Sequence[Any], tile: Tile) -> None:
    """Compute the epilogue in the vectors of the tile if the epilogue is as wide as the tile."""
    if loops and int(sch.get(loops[-1]).extent) == tile.width:
        make_vectors(sch, [*loops[:-1], *sch.split(loops[-1], [tile.vectors, tile.lanes])], tile)


def list_constants(sch: s_tir.Schedule, nest: Nest) -> list[Access]:
    """Return the loads of constants, whose layout may change when the package is built."""
    function = sch.mod["main"]
    free = [function.params[int(index)] for index in (function.attrs or {}).get("layout_free_buffers", [])]
    # A tensor that is loaded twice would have to be packed for both loads.
    return [
        load
        for load in nest.loads
        if any(load.buffer.same_as(buffer) for buffer in free)
        and sum(load.buffer.same_as(other.buffer) for other in nest.loads) == 1
    ]


def pack_weights(sch: s_tir.Schedule, nest: Nest, tile: Tile, constants: Sequence[Access]) -> None:
    """Lay out constant weights in the order in which tiles read them, once, when the package is built."""
    if tile.passes == 1 or not tile.is_packed:
        return
    for load in constants:
        dimension = _packed_dimension(nest, load, tile)
        if dimension is not None:
            _pack(sch, nest, load, (dimension, tile.width))


def _packed_dimension(nest: Nest, load: Access, tile: Tile) -> int | None:
    others = [axis for axis in nest.spatial if axis is not tile.vector]
    if load.stride(tile.vector.var) != 1 or any(load.stride(axis.var) != 0 for axis in others):
        return None
    for dimension, index in enumerate(load.indices):
        if index.same_as(tile.vector.var) and load.shape[dimension] == tile.vector.extent:
            return dimension
    return None


def _pack(sch: s_tir.Schedule, nest: Nest, load: Access, packing: tuple[int, int]) -> None:
    dimension, width = packing
    reads = [region.source for region in sch.get(nest.block).reads]
    position = next((i for i, buffer in enumerate(reads) if buffer.same_as(load.buffer)), None)
    if position is None:
        return
    copy = sch.cache_read(nest.block, position, "global")

    def index_map(*indices: Any) -> list[Any]:
        rest = [index for place, index in enumerate(indices) if place != dimension]
        return [indices[dimension] // width, *rest, indices[dimension] % width]

    sch.transform_layout(nest.block, ("read", position), index_map)
    sch.annotate(copy, "meta_schedule.layout_rewrite_preproc", True)
