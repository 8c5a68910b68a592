"""Tiles of products with operands in shared memory, one for each block of threads, and the choice of the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.schedules.gpu.tiles import MAX_BLOCKS, WARP

VECTOR = 4
"""The number of elements that a thread reads or writes together."""
ALIGNED = 4
"""The number of padding elements after each row of the first operand in shared memory: they put rows into different
banks."""
LANES = 128
"""The number of lanes of a multiprocessor."""
SUMS = 4
"""The number of multiply-adds of a lane in a cycle that add to the time of the reads; the reads hide most others."""
READING = 1.8
"""The number of cycles in which a warp reads the second operand for one step of the depth."""
BYTES = 33
"""The number of bytes that a multiprocessor reads from the second-level cache in a cycle."""
LATENCY = 680
"""The number of cycles of a step besides its computation: the loads of the next step, and two barriers."""
GATHER = 100
"""The number of cycles of a step for each element that a thread gathers singly; fitted to 52 kernels of 13
convolutions."""
MIN_ROWS = 8
"""The smallest number of rows for this rule: with fewer, threads could share little."""
MIN_OUTPUTS = 4096
"""The smallest number of outputs of a sum over windows: with fewer, the few blocks would wait for long sums, whose
operands are gathered element by element.

Compared with the rule that splits sums (`products.py`), 12 x 20 sums of 2,304 products took nine times as long on an
H200, and 512 x 49 sums of 4,608 products a third of the time.
"""
MAX_WASTE = 1.35
"""The largest ratio of a tile's multiply-adds, padding included, to those of the product, if any tile keeps to it."""
MIN_THREADS, MAX_THREADS = 64, 256


@dataclass(frozen=True)
class Matrices:
    """``outer`` matrix products, output[row, column] = sum over ``depth`` of a[row, k] * b[k, column]."""

    outer: int
    rows: int
    columns: int
    depth: int
    operand_bytes: int = 4
    """The size of an element of the operands in bytes."""
    gathered: tuple[bool, bool] = (False, False)
    """True if the operand is gathered from windows element by element, for each of the two operands."""

    @property
    def outputs(self) -> int:
        """Return the number of outputs."""
        return self.outer * self.rows * self.columns


@dataclass(frozen=True)
class StagedTile:
    """A block of ``parts`` x ``row_threads`` x ``column_threads`` threads.

    Each thread adds up one of ``parts`` parts of the sum for ``rows`` x VECTOR elements of the output. ``chunk`` is the
    length of a part that is in shared memory at once.
    """

    row_threads: int
    rows: int
    column_threads: int
    parts: int
    chunk: int

    @property
    def height(self) -> int:
        """Return the number of output rows that a block computes."""
        return self.row_threads * self.rows

    @property
    def width(self) -> int:
        """Return the number of output columns that a block computes."""
        return self.column_threads * VECTOR

    @property
    def step(self) -> int:
        """Return the depth that is in shared memory at once."""
        return self.parts * self.chunk

    @property
    def threads(self) -> int:
        """Return the number of threads in a block."""
        return self.parts * self.row_threads * self.column_threads

    def shared_bytes(self, product: Matrices) -> int:
        """Return the shared memory of a block in bytes: both operands, and the sums of all parts."""
        staged = self.height * (self.step + ALIGNED) + self.step * self.width
        return staged * product.operand_bytes + self.parts * self.height * self.width * 4

    def blocks(self, product: Matrices) -> int:
        """Return the number of blocks that compute the product."""
        return product.outer * math.ceil(product.rows / self.height) * math.ceil(product.columns / self.width)

    def waste(self, product: Matrices) -> float:
        """Return the ratio of the multiply-adds that the tiles compute, padding included, to those of the product."""
        sizes = ((product.rows, self.height), (product.columns, self.width), (product.depth, self.step))
        return math.prod(math.ceil(extent / size) * size / extent for extent, size in sizes)

    def fits(self, product: Matrices, limits: GpuLimits) -> bool:
        """Return whether the tile keeps to the target's limits of blocks, threads and shared memory."""
        grid = (product.outer, math.ceil(product.rows / self.height), math.ceil(product.columns / self.width))
        enough = max(grid) <= MAX_BLOCKS and self.threads <= limits.threads
        return enough and self.shared_bytes(product) <= limits.shared_bytes

    def _gathers(self, product: Matrices) -> float:
        """Return the number of elements that a thread gathers in a step."""
        sides = (side for side, gathered in zip((self.height, self.width), product.gathered, strict=True) if gathered)
        return sum(sides) * self.step / self.threads

    def estimate(self, product: Matrices, limits: GpuLimits) -> float:
        """Return the approximate time of a product in cycles, fitted to 220 kernels of ten products on an H200."""
        warps = max(1, self.threads // WARP)
        steps = math.ceil(product.depth / self.step)
        sums = self.height * self.width * self.step / SUMS / min(LANES, warps * WARP)
        reads = warps * self.chunk * READING
        moved = (self.height + self.width) * self.step * product.operand_bytes / BYTES
        work = sums + reads + moved + self._gathers(product) * GATHER
        adding = (12 * self.parts + 45) * self.height * self.width / self.threads + 300
        blocks = math.ceil(self.blocks(product) / limits.multiprocessors)
        shared = max(1, limits.shared_at_once // self.shared_bytes(product))
        at_once = max(1, min(limits.threads_at_once // self.threads, shared, blocks))
        busy = blocks * (steps * work + adding / 2)
        waiting = math.ceil(blocks / at_once) * (steps * (work + LATENCY) + adding)
        return max(busy, waiting) + min(busy, waiting) / 3


def list_staged_tiles(product: Matrices, limits: GpuLimits, limit: int) -> list[StagedTile]:
    """Return at most ``limit`` tiles, the most promising first; the first ones differ in their parts or rows."""
    fitting = [tile for tile in _all_tiles() if tile.fits(product, limits)]
    tiles = [tile for tile in fitting if tile.waste(product) <= MAX_WASTE] or fitting
    tiles.sort(key=lambda tile: (tile.estimate(product, limits), tile.threads, tile.parts, tile.rows, tile.row_threads))
    best: dict[tuple[int, int], StagedTile] = {}
    for tile in tiles:  # one for each number of parts and of rows, because no estimate is that good
        best.setdefault((tile.parts, tile.rows), tile)
    chosen = set(best.values())
    return [*best.values(), *(tile for tile in tiles if tile not in chosen)][:limit]


def _all_tiles() -> Iterable[StagedTile]:
    sizes = itertools.product((1, 2, 4, 8, 16), (1, 2, 4, 8), (2, 4, 8, 16), (1, 2, 4, 8, 16, 32), (4, 8, 16, 32))
    for row_threads, rows, column_threads, parts, chunk in sizes:
        tile = StagedTile(row_threads, rows, column_threads, parts, chunk)
        if MIN_THREADS <= tile.threads <= MAX_THREADS:
            yield tile
