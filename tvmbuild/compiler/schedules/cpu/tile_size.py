"""The size of a register tile for a reduction's output, and the order of the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmbuild.compiler.machine.machine import PARALLEL_WORK, Machine, power_of_two_divisor
from tvmbuild.compiler.schedules.access import Access
from tvmbuild.compiler.schedules.nest import Axis, Nest, count

SPARE_REGISTERS = 4
"""The number of registers that are kept for loaded operands; the others may hold sums."""
BARE = 16
"""The number of registers of machines whose multiply-add cannot broadcast a number from memory: there the number takes
a register."""
WRITTEN_OUT = 32
"""The largest number of steps of a sum that LLVM unrolls; a register then holds 0 for the first step."""
MAX_VECTORS = 8
FEW = 8
"""The smallest number of sums in registers beside operands; with fewer, each operand is read too often."""
OVERLAP = 1.05
"""The factor by which tiles that overlap must be faster than whole ones to be chosen.

Among similar overlapping tiles, one with fewer loads may compute a few more elements twice.
"""
UNPACKED = 2
"""The factor by which unpacked constant weights are slower: each step of the sum reads another page of memory."""


@dataclass(frozen=True)
class Tile:
    """A register tile: ``rows`` of ``reuse`` x ``vectors`` of ``lanes`` elements along ``vector``."""

    vector: Axis
    lanes: int
    vectors: int
    reuse: Axis | None
    rows: int

    @property
    def width(self) -> int:
        """Return the extent of the tile along the vector axis."""
        return self.lanes * self.vectors

    @property
    def passes(self) -> int:
        """Return the number of tiles along the vector axis."""
        return -(-self.vector.extent // self.width)

    @property
    def computed(self) -> int:
        """Return the number of elements of all tiles along both axes, counting repeated ones each time."""
        reused = -(-self.reuse.extent // self.rows) * self.rows if self.reuse else 1
        return reused * self.passes * self.width

    @property
    def wanted(self) -> int:
        """Return the number of elements of the output along both axes."""
        return self.vector.extent * (self.reuse.extent if self.reuse else 1)

    @property
    def is_packed(self) -> bool:
        """Return whether constants may be stored in the order in which tiles read them."""
        return self.vector.extent % self.width == 0

    @property
    def overlaps(self) -> bool:
        """Return whether the last tile computes elements of the previous tile again."""
        return self.computed > self.wanted


def choose_tile(nest: Nest, machine: Machine, rank: int = 0, constants: Sequence[Access] = ()) -> Tile | None:
    """Return the tile with the fewest cycles for each element, or the tile of rank ``rank``, or None if no tile suits.

    ``constants`` are the loads of tensors that may be packed.
    """
    ranking = rank_tiles(nest, machine, constants)
    return ranking[min(rank, len(ranking) - 1)][1] if ranking else None


def rank_tiles(nest: Nest, machine: Machine, constants: Sequence[Access] = ()) -> list[tuple[float, Tile]]:
    """Return the cycles of each tile for an element, and the tile, the best first; none if no tile suits.

    The rough model has two loads and two sums in a cycle.
    """
    store = nest.store
    if store is None or not nest.reduced or any(access.is_bool for access in (store, *nest.loads)):
        return []
    if any(store.stride(axis.var) is None for axis in nest.spatial):
        return []
    vector = next((a for a in nest.spatial if a.extent > 1 and store.stride(a.var) == 1), None)
    if vector is None or not any(load.stride(vector.var) == 1 for load in nest.loads):
        return []
    reuse = _reuse_axis(nest, vector)
    most = machine.registers - SPARE_REGISTERS
    if any(load.bits < nest.bits and load.stride(vector.var) == 1 and _moves(load, reuse) for load in nest.loads):
        most //= 2  # a widened operand takes a register in addition to that of the sum
    elif any(load.stride(vector.var) == 1 and is_read_again(load, nest.reduced[-1], reuse) for load in nest.loads):
        most = max(machine.registers // 2 - 2, FEW)
    listed = _list_tiles((vector, reuse), machine.lanes(nest.bits), most)
    tiles = [tile for tile in listed if _count_registers(tile, machine, count(nest.reduced)) <= machine.registers]
    strides = [(load.stride(vector.var), load.stride(reuse.var) if reuse else 0) for load in nest.loads]
    large = any(load.elements * load.bits // 8 > machine.limits.near_cache for load in constants)

    def cost(tile: Tile) -> tuple[float, float, int]:
        cycles, loads, fewest = _cost(nest, tile, machine, strides)
        if tile.overlaps:
            cycles *= OVERLAP * tile.computed / tile.wanted * (1 + loads * tile.lanes / 10)
        return (cycles if tile.is_packed or not large else cycles * UNPACKED, loads, fewest)

    ranked = sorted(((cost(tile), tile) for tile in tiles), key=lambda each: each[0])
    return [(cycles, tile) for (cycles, _, _), tile in ranked]


def _list_tiles(axes: tuple[Axis, Axis | None], width: int, most: int) -> list[Tile]:
    """Return tiles of at most ``most`` vectors of sums: first those that divide the axes, then those that overlap.

    ``width`` is the number of lanes in a register. No tile is longer than an axis, and all vectors are full.
    """
    vector, reuse = axes
    most_rows = min(most, reuse.extent) if reuse else 1
    whole = power_of_two_divisor(vector.extent, width)
    full = min(width, 1 << (vector.extent.bit_length() - 1))
    tiles = [
        Tile(vector, lanes, vectors, reuse, rows)
        for lanes in sorted({whole, full})
        for rows in range(1, most_rows + 1)
        for vectors in range(1, min(MAX_VECTORS, vector.extent // lanes) + 1)
        if rows * vectors <= most
    ]
    return [tile for tile in tiles if not tile.overlaps] + [tile for tile in tiles if tile.overlaps]


def _count_registers(tile: Tile, machine: Machine, steps: int) -> int:
    """Return the number of registers for the sums and their factors: vectors, and numbers broadcast to all lanes.

    A factor that is used once is read from memory. On a machine with at most `BARE` registers, broadcast numbers take
    one register at a time. On others LLVM, at least for znver4, keeps all numbers that are multiplied by several
    vectors in registers.
    """
    sums = tile.rows * tile.vectors
    if tile.rows == 1:
        return sums
    if machine.registers <= BARE:
        return sums + tile.vectors + 1 + (steps <= WRITTEN_OUT)
    return sums + tile.vectors + (tile.rows if tile.vectors > 1 else 0)


def is_read_again(load: Access, step: Axis, across: Axis | None) -> bool:
    """Return whether a step of a sum reads elements that another sum has read before, as for overlapping windows.

    LLVM unrolls short loops and keeps these elements in registers, or in memory if the sums take all registers.
    """
    if across is None:
        return False
    pixel, along = load.stride(across.var) or 0, load.stride(step.var) or 0
    return bool(pixel and along) and pixel % along == 0 and pixel < along * step.extent


def _moves(load: Access, axis: Axis | None) -> bool:
    return axis is not None and load.stride(axis.var) != 0


def _reuse_axis(nest: Nest, vector: Axis) -> Axis | None:
    """Return the axis along which most loaded vectors are reused, and of several equal axes the innermost one."""
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
    tiles = count(nest.spatial) // tile.wanted * tile.computed // (tile.rows * tile.width)
    if nest.work >= PARALLEL_WORK:
        cycles *= -(-tiles // machine.threads) * machine.threads / tiles
    return cycles / tile.lanes, loads / sums / tile.lanes, -sums * tile.lanes


def vectors_go_outside(nest: Nest, tile: Tile, machine: Machine) -> bool:
    """Return whether to read all data for one block of weights after the other, instead of all weights for each data.

    The order that moves fewer bytes from memory is chosen; data that fit in the first-level cache count as free.
    """
    others = count(nest.spatial) // tile.wanted * tile.computed // (tile.passes * tile.width * tile.rows)
    outside, inside, near_cache = 0, 0, machine.limits.near_cache
    for load in nest.loads:
        size = load.elements * load.bits // 8
        if load.stride(tile.vector.var) == 0:
            outside += size * (tile.passes if size > near_cache else 1)
            inside += size
        elif tile.reuse and load.stride(tile.reuse.var) == 0:
            outside += size
            inside += size * (others if size > near_cache else 1)
    return outside < inside
