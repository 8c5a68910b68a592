"""The sizes of CPU attention: the queries and keys of a block, and the register tiles."""

from __future__ import annotations

from dataclasses import dataclass

from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.kernels.vectors import cut
from tvmbuild.compiler.machine.machine import Machine, divisors
from tvmbuild.compiler.schedules.cpu.tile_size import BARE

_SPARE_REGISTERS = 4
"""The smallest number of registers that are kept for operands; the others may hold sums."""
_MAX_SUMS = 16
"""The largest number of registers for the sums of a tile: more of them would not hide more latency."""
_MIN_LANES = 4
_MAX_VECTORS, _MAX_SHORT_VECTORS = 2, 3
"""The largest number of vectors of queries in a block; the second number is for CPUs with few registers. Their vectors
are short, and with two vectors each loaded key would serve few queries."""
_NEAR_SCORES = 1 << 13
"""The number of bytes of scores that stay in the first-level cache beside keys and values."""
_MAX_PIECES = 4
_NEAR_BYTES = 32
"""The number of bytes that the second-level cache delivers in a cycle."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of blocks and register tiles in one attention kernel."""

    lanes: int
    """The number of queries in a vector."""
    vectors: int
    """The number of vectors of queries in a block, which are all in one tile of scores."""
    key_tile: int
    """The number of keys in a tile of scores."""
    keys: int
    """The number of keys in a block; the last block may have fewer, and a single block has all."""
    row_tile: int
    """The number of queries in a tile of the output."""
    pieces: int
    """The number of vectors along a head's width in a tile of the output."""
    width_lanes: int
    """The number of lanes of a vector along a head's width; the rest of the width takes shorter vectors."""

    @property
    def rows(self) -> int:
        """The number of queries in a block."""
        return self.lanes * self.vectors

    def count_blocks(self, rows: int) -> int:
        """Return the number of blocks for ``rows`` queries; the last block begins earlier so that it is full."""
        return -(-rows // self.rows)


def choose_sizes(form: Attention, machine: Machine) -> Sizes:
    """Return the sizes that take the fewest cycles in a rough model: two loads and two sums in a cycle."""
    width = machine.lanes(32)
    lanes = min(width, max(_MIN_LANES, 1 << (form.rows - 1).bit_length()))
    most = _MAX_SHORT_VECTORS if machine.registers <= BARE else _MAX_VECTORS
    choices = [_sizes(form, machine, lanes, vectors) for vectors in range(1, most + 1)]
    return min(choices, key=lambda sizes: _cost(form, sizes, width))


def choose_last(form: Attention, machine: Machine, sizes: Sizes) -> Sizes | None:
    """Return the sizes of a last block with fewer vectors, or None if it needs all vectors or is the only block."""
    left = -(-(form.rows % sizes.rows) // sizes.lanes)
    if form.rows < sizes.rows or left in {0, sizes.vectors}:
        return None
    return _sizes(form, machine, sizes.lanes, left)


def _sizes(form: Attention, machine: Machine, lanes: int, vectors: int) -> Sizes:
    sums = min(machine.registers - max(_SPARE_REGISTERS, vectors + 2), _MAX_SUMS)
    key_tile = max(1, min(sums // vectors, form.keys))
    rows = lanes * vectors
    most = max(2 * key_tile, _NEAR_SCORES // (4 * rows))
    keys = -(-form.keys // -(-form.keys // most))
    keys = min(form.keys, -(-keys // key_tile) * key_tile)
    row_tile, pieces = _choose_tile(form, machine, rows)
    return Sizes(lanes, vectors, key_tile, keys, row_tile, pieces, machine.lanes(32))


def _choose_tile(form: Attention, machine: Machine, rows: int) -> tuple[int, int]:
    """Return the rows and vectors of a tile of the output: as many sums as registers hold, with the fewest loads."""
    most = min(len(cut(form.width, machine.lanes(32))), _MAX_PIECES)
    tiles = [
        (row_tile, pieces)
        for row_tile in divisors(rows, 1 << (form.rows - 1).bit_length())
        for pieces in range(1, most + 1)
        if row_tile * pieces <= min(machine.registers - pieces - 2, _MAX_SUMS)
    ]
    return max(tiles, key=lambda tile: (tile[0] * tile[1], -tile[0] - tile[1], tile[0]))


def _cost(form: Attention, sizes: Sizes, width: int) -> tuple[float, int]:
    tile = sizes.key_tile * sizes.vectors
    scores = form.depth * max(0.5, (sizes.key_tile + sizes.vectors) / (2 * tile), 4 / tile)
    outputs = sizes.lanes * form.width / width / 2
    bytes_read = 4 * (form.depth + form.width) / _NEAR_BYTES
    each = sizes.vectors * (scores + outputs) + bytes_read
    vectors = -(-form.rows // sizes.lanes)
    return max(vectors, sizes.vectors) / sizes.vectors * each, sizes.vectors
