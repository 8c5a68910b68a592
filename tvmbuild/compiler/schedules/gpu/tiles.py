"""Tiles of a matrix product, one for each block of threads, and the choice of the fastest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.machine.machine import divisors

WARP = 32
UNROLLED = 4
"""The number of steps along the sum whose loads are in flight together."""
MIN_THREADS, MAX_THREADS = 64, 512
MAX_ROWS, MAX_COLUMNS = 8, 4
MAX_PARTS = 64
MAX_SUMS = 32
"""The largest number of running sums in a thread's registers."""
MAX_BLOCKS = 65535
"""The largest number of blocks along one axis of the grid: the limit of CUDA for the second axis, and the number that
Vulkan guarantees for all axes."""


@dataclass(frozen=True)
class Product:
    """The product output[row, column] = sum over ``depth`` of a[row, k] * b[k, column]; columns are contiguous."""

    rows: int
    columns: int
    depth: int
    sum_bytes: int = 4
    """The size of a running sum in bytes."""


@dataclass(frozen=True)
class Tile:
    """A block of ``row_threads`` x ``column_threads`` x ``parts`` threads.

    Each thread adds up one of ``parts`` parts of the sum, for ``rows`` x ``columns`` elements of the output.
    """

    row_threads: int
    rows: int
    column_threads: int
    columns: int
    parts: int

    @property
    def height(self) -> int:
        """Return the number of output rows that a block computes."""
        return self.row_threads * self.rows

    @property
    def width(self) -> int:
        """Return the number of output columns that a block computes."""
        return self.column_threads * self.columns

    @property
    def threads(self) -> int:
        """Return the number of threads in a block."""
        return self.row_threads * self.column_threads * self.parts

    def shared_bytes(self, product: Product) -> int:
        """Return the shared memory of a block in bytes: the sums of all parts."""
        return self.parts * self.height * self.width * product.sum_bytes

    def blocks(self, product: Product) -> int:
        """Return the number of blocks that compute the product."""
        return product.rows // self.height * (product.columns // self.width)

    def fits(self, product: Product, limits: GpuLimits) -> bool:
        """Return whether the tile keeps to the target's limits of blocks, threads and shared memory."""
        grid = max(product.rows // self.height, product.columns // self.width)
        return (
            self.threads <= limits.threads and self.shared_bytes(product) <= limits.shared_bytes and grid <= MAX_BLOCKS
        )

    def estimate(self, product: Product, limits: GpuLimits) -> float:
        """Return the approximate time of the product in GPU cycles, good enough to choose a tile."""
        warps = math.ceil(self.threads / WARP)
        steps = product.depth // self.parts
        groups = math.ceil(WARP / self.column_threads)
        loads = steps * warps * (self.rows + self.columns) * max(1.0, groups / 4)
        sums = steps * warps * self.rows * self.columns / 4
        blocks = math.ceil(self.blocks(product) / limits.multiprocessors)
        waiting = math.ceil(steps / UNROLLED) * limits.latency
        at_once = max(1, limits.threads_at_once // self.threads)
        adding = math.ceil(self.height * self.width / self.threads) * (8 * self.parts + 100) + limits.barrier
        return max(blocks * (loads + sums), math.ceil(blocks / at_once) * waiting) + adding


def list_tiles(product: Product, limits: GpuLimits, limit: int) -> list[Tile]:
    """Return at most ``limit`` tiles, the most promising first; the first ones differ in their parts or sums."""
    tiles = [tile for tile in _all_tiles(product) if tile.fits(product, limits)]
    tiles.sort(key=lambda tile: (tile.estimate(product, limits), tile.threads, tile.parts, tile.rows, tile.row_threads))
    best: dict[tuple[int, int], Tile] = {}
    for tile in tiles:  # one for each number of parts and of sums, because no estimate is that good
        best.setdefault((tile.parts, tile.rows * tile.columns), tile)
    chosen = set(best.values())
    return [*best.values(), *(tile for tile in tiles if tile not in chosen)][:limit]


def _all_tiles(product: Product) -> Iterable[Tile]:
    """Yield the tiles that divide the product without a remainder."""
    heights = _pairs(product.rows, WARP, MAX_ROWS)
    widths = _pairs(product.columns, 2 * WARP, MAX_COLUMNS)
    parts = [part for part in divisors(product.depth, MAX_PARTS) if 1 < part < product.depth]
    for (row_threads, rows), (column_threads, columns) in itertools.product(heights, widths):
        if rows * columns > MAX_SUMS:
            continue
        for part in parts:
            if MIN_THREADS <= row_threads * column_threads * part <= MAX_THREADS:
                yield Tile(row_threads, rows, column_threads, columns, part)


def _pairs(extent: int, most_threads: int, most_elements: int) -> list[tuple[int, int]]:
    """Return the pairs (threads, elements of each thread) whose product divides the extent."""
    return [
        (threads, elements)
        for threads in divisors(extent, most_threads)
        for elements in divisors(extent // threads, most_elements)
    ]
