"""How the warps of a block share a product on tensor cores: which tiles there are, and which are best."""

from __future__ import annotations

from dataclasses import dataclass

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import SIDE
from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices

VECTOR_BYTES = 16
"""That a thread copies at once, and that follow each row of an operand in shared memory: rows in other banks."""


@dataclass(frozen=True)
class Times:
    """Microseconds of a tile, fitted to 135 products of five networks on an H200 (2026-11-25).

    Of those the tile that these choose takes 1.05 times as long as the best of 50, 1.22 times at worst. On other cards
    they are others, and in about the same proportions.
    """

    alone: float
    """Of a step of the only block of a multiprocessor: most of it is waiting for the operands."""
    among: float
    """Of a step among others, which hide the waiting."""
    writing: float
    """Of what follows the sums of a block."""


@dataclass(frozen=True)
class WarpTile:
    """A block of ``down`` x ``across`` warps, each of ``rows`` x ``columns`` tiles; ``chunk`` tiles of depth a step."""

    down: int
    across: int
    rows: int
    columns: int
    chunk: int
    ahead: int
    """Steps whose operands are on their way while one is multiplied."""
    times: Times

    @property
    def height(self) -> int:
        """Return how many rows of the output a block computes."""
        return self.down * self.rows * SIDE

    @property
    def width(self) -> int:
        """Return how many columns of the output a block computes."""
        return self.across * self.columns * SIDE

    @property
    def step(self) -> int:
        """Return how much of the depth is in shared memory at once."""
        return self.chunk * SIDE

    def shared_bytes(self, operand_bytes: int) -> int:
        """Return what a block keeps in shared memory: steps of both operands, and its part of the output."""
        after = VECTOR_BYTES // operand_bytes
        numbers = self.height * (self.step + after) + self.step * (self.width + after)
        return operand_bytes * numbers * (self.ahead + 1) + 4 * self.height * self.width

    @property
    def warps(self) -> int:
        """Return the block's."""
        return self.down * self.across

    def count_blocks(self, product: Matrices) -> int:
        """Return how many blocks a product takes."""
        return product.outer * -(-product.rows // self.height) * -(-product.columns // self.width)

    def estimate(self, product: Matrices, multiprocessors: int) -> float:
        """Return the microseconds of a product, without what every kernel takes."""
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
"""The last wants more shared memory than targets state, and was timed by hand."""
_MAX_OUTER = 65535
"""Of the third dimension of a grid, and of the second."""


def list_warp_tiles(product: Matrices, limits: GpuLimits, limit: int, *, ahead: bool = True) -> list[WarpTile]:
    """Return at most ``limit`` tiles that a card takes, those that should take least time first.

    Without ``ahead`` the card cannot copy to shared memory while it multiplies.
    """
    held = [
        tile
        for tile in TILES
        if tile.shared_bytes(product.operand_bytes) <= limits.shared_bytes and (ahead or not tile.ahead)
    ]
    fitting = [tile for tile in held if max(product.outer, -(-product.rows // tile.height)) <= _MAX_OUTER]
    return sorted(fitting, key=lambda tile: tile.estimate(product, limits.multiprocessors))[:limit]
