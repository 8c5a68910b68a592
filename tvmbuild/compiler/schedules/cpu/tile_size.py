"""How large a tile of a reduction's output to keep in registers, and in which order to go through the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmbuild.compiler.schedules.nest import (
    PARALLEL_WORK,
    Access,
    Axis,
    Machine,
    Nest,
    count,
    divisors,
    power_of_two_divisor,
)

SPARE_REGISTERS = 4
"""For what is loaded; the rest may hold sums."""
MAX_VECTORS = 8


@dataclass(frozen=True)
class Tile:
    """What stays in registers: ``rows`` of ``reuse`` x ``vectors`` of ``lanes`` elements along ``vector``."""

    vector: Axis
    lanes: int
    vectors: int
    reuse: Axis | None
    rows: int

    @property
    def width(self) -> int:
        """Return the tile's extent along the vector axis."""
        return self.lanes * self.vectors


def choose_tile(nest: Nest, machine: Machine, rank: int = 0) -> Tile | None:
    """Return the tile with the fewest cycles an element, or the next best: that of the ``rank``; None when none suits.

    By a rough model of two loads and two sums a cycle.
    """
    store = nest.store
    if store is None or not nest.reduced or any(access.is_bool for access in (store, *nest.loads)):
        return None
    if any(store.stride(axis.var) is None for axis in nest.spatial):
        return None
    vector = next((a for a in nest.spatial if a.extent > 1 and store.stride(a.var) == 1), None)
    if vector is None or not any(load.stride(vector.var) == 1 for load in nest.loads):
        return None
    lanes = power_of_two_divisor(vector.extent, machine.lanes(nest.bits))
    reuse = _reuse_axis(nest, vector)
    most = machine.registers - SPARE_REGISTERS
    if any(load.bits < nest.bits and load.stride(vector.var) == 1 and _moves(load, reuse) for load in nest.loads):
        most //= 2  # what is widened takes a register besides the sum's
    tiles = [
        Tile(vector, lanes, vectors, reuse, rows)
        for rows in divisors(reuse.extent if reuse else 1, most)
        for vectors in divisors(vector.extent // lanes, MAX_VECTORS)
        if rows * vectors <= most
    ]
    strides = [(load.stride(vector.var), load.stride(reuse.var) if reuse else 0) for load in nest.loads]
    ranking = sorted(tiles, key=lambda tile: _cost(nest, tile, machine, strides))
    return ranking[min(rank, len(ranking) - 1)] if ranking else None


def _moves(load: Access, axis: Axis | None) -> bool:
    return axis is not None and load.stride(axis.var) != 0


def _reuse_axis(nest: Nest, vector: Axis) -> Axis | None:
    """Return the axis along which most vectors that were loaded serve again; the innermost of several."""
    best, most = None, 0
    for axis in nest.spatial:
        if axis is not vector and axis.extent > 1:
            served = sum(load.stride(vector.var) == 1 and load.stride(axis.var) == 0 for load in nest.loads)
            if served >= most:
                best, most = axis, served
    return best


def _cost(
    nest: Nest, tile: Tile, machine: Machine, strides: Sequence[tuple[int | None, int | None]]
) -> tuple[float, float, int]:
    sums = tile.rows * tile.vectors
    # Weights that are read again for each tile of pixels come from the second-level cache, at half the rate.
    weights = count(nest.reduced) * tile.width * nest.loads[0].bits // 8
    far = 2 if weights > machine.limits.near_cache else 1
    loads = 0
    for along, across in strides:
        vectors = 1 if along == 0 else tile.vectors * (1 if along == 1 else tile.lanes)
        loads += vectors * (tile.rows if across != 0 else far)
    cycles = max(sums / 2, loads / 2, machine.limits.fma_latency) / sums
    tiles = count(nest.spatial) // (tile.rows * tile.width)
    if nest.work >= PARALLEL_WORK:
        cycles *= -(-tiles // machine.threads) * machine.threads / tiles
    return cycles, loads / sums, -sums


def vectors_go_outside(nest: Nest, tile: Tile, machine: Machine) -> bool:
    """Say whether to keep a block of the weights and stream the data past it, rather than the other way round.

    Whatever moves fewer bytes from memory, counting what fits the nearest cache as free.
    """
    passes = tile.vector.extent // tile.width
    others = count(nest.spatial) // (tile.vector.extent * tile.rows)
    outside, inside, near_cache = 0, 0, machine.limits.near_cache
    for load in nest.loads:
        size = load.elements * load.bits // 8
        if load.stride(tile.vector.var) == 0:
            outside += size * (passes if size > near_cache else 1)
            inside += size
        elif tile.reuse and load.stride(tile.reuse.var) == 0:
            outside += size
            inside += size * (others if size > near_cache else 1)
    return outside < inside
