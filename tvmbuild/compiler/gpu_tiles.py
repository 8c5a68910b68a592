"""How a block of a GPU's threads shares a product of matrices: which tiles there are, and which seem fastest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

WARP = 32
UNROLLED = 4
"""Steps along the sum whose loads are under way together."""
LATENCY = 400
"""Cycles from a load to its value where that is in the second-level cache, as what the last kernel wrote is."""
BARRIER = 300
"""Cycles for a barrier and the first loads after it."""
MULTIPROCESSORS = 64
"""Of a middling card: tiles that keep so many busy also fit larger ones."""
FEWEST_THREADS, MOST_THREADS = 64, 512
MOST_ROWS, MOST_COLUMNS = 8, 4
MOST_PARTS = 64
MOST_SUMS = 32
"""Running sums in a thread's registers."""


@dataclass(frozen=True)
class Product:
    """output[row, column] = sum over ``depth`` of a[row, k] * b[k, column]; neighbouring columns lie side by side."""

    rows: int
    columns: int
    depth: int


@dataclass(frozen=True)
class Limits:
    """What the target allows a block of threads."""

    threads: int
    shared_bytes: int


@dataclass(frozen=True)
class Tile:
    """A block of ``row_threads`` x ``column_threads`` x ``parts`` threads.

    Each adds up one of ``parts`` parts of the sum, for ``rows`` x ``columns`` elements of the output.
    """

    row_threads: int
    rows: int
    column_threads: int
    columns: int
    parts: int

    @property
    def height(self) -> int:
        """Return how many rows of the output a block computes."""
        return self.row_threads * self.rows

    @property
    def width(self) -> int:
        """Return how many columns of the output a block computes."""
        return self.column_threads * self.columns

    @property
    def threads(self) -> int:
        """Return the block's."""
        return self.row_threads * self.column_threads * self.parts

    @property
    def shared_bytes(self) -> int:
        """Return what the parts' sums take, in float32."""
        return self.parts * self.height * self.width * 4

    def blocks(self, product: Product) -> int:
        """Return how many blocks compute the product."""
        return product.rows // self.height * (product.columns // self.width)

    def fits(self, limits: Limits) -> bool:
        """Say whether the target allows it and it is worth a thought."""
        return (
            FEWEST_THREADS <= self.threads <= min(MOST_THREADS, limits.threads)
            and self.rows * self.columns <= MOST_SUMS
            and self.shared_bytes <= limits.shared_bytes
        )

    def estimate(self, product: Product) -> float:
        """Return about how many cycles a card takes: to choose by, not to believe."""
        warps = math.ceil(self.threads / WARP)
        steps = product.depth // self.parts
        groups = math.ceil(WARP / self.column_threads)
        loads = steps * warps * (self.rows + self.columns) * max(1.0, groups / 4)
        sums = steps * warps * self.rows * self.columns / 4
        blocks = math.ceil(self.blocks(product) / MULTIPROCESSORS)
        waiting = math.ceil(steps / UNROLLED) * LATENCY
        at_once = max(1, 2048 // self.threads)
        adding = math.ceil(self.height * self.width / self.threads) * (8 * self.parts + 100) + BARRIER
        return max(blocks * (loads + sums), math.ceil(blocks / at_once) * waiting) + adding


def list_tiles(product: Product, limits: Limits, limit: int) -> list[Tile]:
    """Return at most ``limit`` tiles, the most promising first, no two of them much alike."""
    tiles = [tile for tile in _all_tiles(product) if tile.fits(limits)]
    tiles.sort(key=lambda tile: (tile.estimate(product), tile.threads, tile.parts, tile.rows, tile.row_threads))
    best = _first_of_each(tiles)
    return [*best, *(tile for tile in tiles if tile not in best)][:limit]


def _all_tiles(product: Product) -> Iterable[Tile]:
    """Return the tiles that divide the product without a rest."""
    heights = [pair for pair in _pairs(product.rows, WARP) if pair[1] <= MOST_ROWS]
    widths = [pair for pair in _pairs(product.columns, 2 * WARP) if pair[1] <= MOST_COLUMNS]
    parts = [part for part in _divisors(product.depth, MOST_PARTS) if 1 < part < product.depth]
    for height, width, part in itertools.product(heights, widths, parts):
        yield Tile(*height, *width, part)


def _pairs(extent: int, most: int) -> Iterable[tuple[int, int]]:
    """Return (threads, elements of each) that divide the extent."""
    return [(outer, inner) for outer in _divisors(extent, most) for inner in _divisors(extent // outer, MOST_ROWS)]


def _first_of_each(tiles: Iterable[Tile]) -> list[Tile]:
    """Return the best tile of each number of parts and of sums, for no estimate is that good."""
    seen: dict[tuple[int, int], Tile] = {}
    for tile in tiles:
        seen.setdefault((tile.parts, tile.rows * tile.columns), tile)
    return list(seen.values())


def _divisors(number: int, most: int) -> list[int]:
    return [divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0]
