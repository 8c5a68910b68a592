"""Tiles of a product on tensor cores, divided among the warps of a block, and the choice of the best."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import SIDE
from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices
from tvmbuild.compiler.schedules.gpu.tiles import MAX_BLOCKS

VECTOR_BYTES = 16
"""The number of bytes that a thread copies at once."""


@dataclass(frozen=True)
class Times:
    """The times of a tile in microseconds, fitted to 135 products of five networks on an H200 (2026-11-25).

    For these products, the tile that the times choose takes 1.05 times as long as the best of 50, 1.22 times at worst.
    Other GPUs have other times, in about the same proportions.
    """

    alone: float
    """The time of a step if a multiprocessor has only this block: most of it is waiting for the operands."""
    among: float
    """The time of a step if other blocks on the multiprocessor hide the waiting."""
    writing: float
    """The time that a block needs after its sums, to write its outputs."""


@dataclass(frozen=True)
class WarpTile:
    """A block of ``down`` x ``across`` warps, each with ``rows`` x ``columns`` tiles of SIDE x SIDE outputs.

    A step multiplies ``chunk`` tiles along the depth.
    """

    down: int
    across: int
    rows: int
    columns: int
    chunk: int
    ahead: int
    """The number of steps whose operands are in flight while one is multiplied."""
    times: Times

    @property
    def form(self) -> tuple[int, ...]:
        """Return the tile's numbers without its times."""
        return self.down, self.across, self.rows, self.columns, self.chunk, self.ahead

    @property
    def height(self) -> int:
        """Return the number of output rows that a block computes."""
        return self.down * self.rows * SIDE

    @property
    def width(self) -> int:
        """Return the number of output columns that a block computes."""
        return self.across * self.columns * SIDE

    @property
    def step(self) -> int:
        """Return the depth that is in shared memory at once."""
        return self.chunk * SIDE

    def shared_bytes(self, operand_bytes: int) -> int:
        """Return the shared memory of a block in bytes: steps of both operands, and its part of the output.

        The output of float32 operands lies where the operands were.
        """
        left, right = row_padding(operand_bytes)
        numbers = self.height * (self.step + left) + self.step * (self.width + right)
        steps, output = operand_bytes * numbers * (self.ahead + 1), 4 * self.height * self.width
        return max(steps, output) if operand_bytes == _TF32_BYTES else steps + output

    def fits(self, product: Matrices, limits: GpuLimits) -> bool:
        """Return whether a block of the product keeps to the GPU's limits of shared memory and of the grid."""
        launched = product.operand_bytes == _TF32_BYTES
        most = limits.launched_bytes if launched else limits.shared_bytes
        grid = max(product.outer, -(-product.rows // self.height))
        return self.shared_bytes(product.operand_bytes) <= most and grid <= MAX_BLOCKS

    @property
    def warps(self) -> int:
        """Return the number of warps in a block."""
        return self.down * self.across

    def count_blocks(self, product: Matrices) -> int:
        """Return the number of blocks that a product takes."""
        return product.outer * -(-product.rows // self.height) * -(-product.columns // self.width)

    def estimate(self, product: Matrices, multiprocessors: int) -> float:
        """Return the estimated time of a product in microseconds, without the constant time that every kernel takes."""
        turns = self.count_blocks(product) / multiprocessors
        steps = -(-product.depth // self.step)
        return steps * max(self.times.alone, self.times.among * turns) + self.times.writing * max(1, turns)


TILES = (
    WarpTile(2, 2, 2, 2, 1, 0, Times(0.312, 0.130, 0.599)),
    WarpTile(2, 2, 2, 2, 2, 0, Times(0.550, 0.238, 0.632)),
    WarpTile(2, 2, 2, 2, 4, 0, Times(0.849, 0.363, 0.785)),
    WarpTile(2, 2, 2, 2, 2, 1, Times(0.280, 0.171, 1.227)),
    WarpTile(2, 2, 2, 2, 2, 2, Times(0.263, 0.214, 0.989)),
    WarpTile(4, 1, 1, 2, 1, 0, Times(0.301, 0.124, 0.320)),
    WarpTile(4, 1, 1, 2, 4, 0, Times(0.842, 0.315, 0.456)),
    WarpTile(2, 2, 1, 2, 2, 0, Times(0.439, 0.151, 0.341)),
    WarpTile(2, 2, 1, 2, 4, 0, Times(0.723, 0.260, 0.428)),
    WarpTile(2, 2, 1, 2, 8, 0, Times(1.214, 0.550, 0.321)),
    WarpTile(2, 2, 1, 1, 4, 3, Times(0.233, 0.167, 0.688)),
    WarpTile(1, 2, 1, 1, 8, 2, Times(0.396, 0.242, 0.657)),
    WarpTile(2, 2, 2, 2, 1, 2, Times(0.177, 0.102, 1.171)),
    WarpTile(2, 2, 1, 1, 2, 2, Times(0.161, 0.089, 0.768)),
    WarpTile(2, 2, 4, 4, 2, 0, Times(0.720, 0.553, 2.500)),
)
"""The tiles of 16-bit operands and their times. The last tile needs more shared memory than targets declare, and was
timed by hand."""
_TF32_BYTES = 4
_TF32 = 1.9
"""The times of a tile with TF32 in those with 16 bits, where both were measured (1.7 to 2.1, H200, 2026-11-29)."""


def row_padding(operand_bytes: int) -> tuple[int, int]:
    """Return the elements after each row of both operands in shared memory, which put rows into different banks.

    A warp reads TF32's left operand in pairs, 8 rows at a time, so its rows begin 8 banks apart.
    """
    return (8, 4) if operand_bytes == _TF32_BYTES else (8, 8)


def _in_tf32(tile: WarpTile) -> WarpTile:
    times = tile.times
    return replace(tile, times=Times(times.alone * _TF32, times.among * _TF32, times.writing * _TF32))


_MEASURED = (
    WarpTile(2, 2, 2, 2, 2, 0, Times(0.950, 0.411, 0.987)),
    WarpTile(2, 2, 2, 2, 2, 1, Times(0.579, 0.352, 1.063)),
    WarpTile(2, 2, 2, 2, 1, 2, Times(0.336, 0.193, 0.972)),
    WarpTile(2, 2, 4, 2, 1, 2, Times(0.500, 0.295, 2.390)),
    WarpTile(2, 2, 4, 2, 2, 1, Times(1.000, 0.603, 1.745)),
    WarpTile(2, 2, 4, 4, 1, 2, Times(0.920, 0.543, 3.781)),
    WarpTile(2, 2, 4, 4, 2, 1, Times(1.750, 1.053, 3.557)),
    WarpTile(4, 1, 2, 2, 1, 2, Times(0.360, 0.210, 1.946)),
    WarpTile(4, 1, 4, 2, 1, 2, Times(0.710, 0.420, 3.541)),
)
_FORMS = {tile.form for tile in _MEASURED}
TF32_TILES = (*(_in_tf32(tile) for tile in TILES[:-1] if tile.form not in _FORMS), *_MEASURED)
"""The tiles of float32 operands, and their times fitted to 3 x 3 convolutions of 320 x 320 pixels with 32, 64, 128 and
256 channels: all within 10 % (H200, 2026-11-29). A lone block's times are 1.7 times those among others, as for 16 bits;
those of tiles that were not timed are scaled."""


def list_warp_tiles(product: Matrices, limits: GpuLimits, limit: int, *, ahead: bool = True) -> list[WarpTile]:
    """Return at most ``limit`` tiles that fit the GPU, by increasing estimated time.

    If ``ahead`` is False, the GPU cannot copy to shared memory while it multiplies, and tiles that need this are left
    out.
    """
    known = TF32_TILES if product.operand_bytes == _TF32_BYTES else TILES
    fitting = [tile for tile in known if tile.fits(product, limits) and (ahead or not tile.ahead)]
    return sorted(fitting, key=lambda tile: tile.estimate(product, limits.multiprocessors))[:limit]
