"""How the warps of a block share a product on tensor cores: which tiles there are, and which are best."""

from __future__ import annotations

from dataclasses import dataclass

from tvmbuild.compiler.limits import GpuLimits
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices

SIDE = 16
"""Rows, columns and depth of what a warp multiplies at once."""
ALIGNED = 8
"""Numbers after each row of an operand in shared memory, so that rows do not share their banks."""


@dataclass(frozen=True)
class WarpTile:
    """A block of ``down`` x ``across`` warps, each of ``rows`` x ``columns`` tiles; ``chunk`` tiles of depth a step."""

    down: int
    across: int
    rows: int
    columns: int
    chunk: int
    alone: float
    """Microseconds of a step of the only block of a multiprocessor: most of it is waiting for the operands."""
    among: float
    """Microseconds of a step among others, which hide the waiting."""

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

    @property
    def shared_bytes(self) -> int:
        """Return what a block keeps in shared memory: a step of both operands, and its part of the output."""
        operands = self.height * (self.step + ALIGNED) + self.step * (self.width + ALIGNED)
        return 2 * operands + 4 * self.height * self.width

    @property
    def warps(self) -> int:
        """Return the block's."""
        return self.down * self.across

    def count_blocks(self, product: Matrices) -> int:
        """Return how many blocks a product takes."""
        return product.outer * -(-product.rows // self.height) * -(-product.columns // self.width)

    def estimate(self, product: Matrices, multiprocessors: int) -> float:
        """Return the microseconds of a product, without what every kernel takes."""
        turns = -(-self.count_blocks(product) // multiprocessors)
        return -(-product.depth // self.step) * max(self.alone, self.among * turns)


TILES = (
    WarpTile(1, 2, 1, 1, 8, 0.75, 0.370),
    WarpTile(2, 2, 1, 1, 4, 0.45, 0.206),
    WarpTile(2, 2, 1, 2, 4, 0.44, 0.274),
    WarpTile(2, 2, 2, 2, 4, 0.52, 0.390),
    WarpTile(2, 4, 2, 2, 2, 0.52, 0.470),
    WarpTile(2, 2, 4, 4, 2, 0.72, 0.553),
)
"""With times of an H200, 2026-11-24: on other cards they are others, and in about the same proportions."""
_MOST_OUTER = 65535
"""Of the third dimension of a grid, and of the second."""


def list_warp_tiles(product: Matrices, limits: GpuLimits, limit: int) -> list[WarpTile]:
    """Return at most ``limit`` tiles that a card takes, those that should take least time first."""
    held = [tile for tile in TILES if tile.shared_bytes <= limits.shared_bytes]
    fitting = [tile for tile in held if max(product.outer, -(-product.rows // tile.height)) <= _MOST_OUTER]
    return sorted(fitting, key=lambda tile: tile.estimate(product, limits.multiprocessors))[:limit]
