"""The sizes of GPU attention, which say how a block of threads shares some queries of a head."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.machine.limits import GpuLimits

THREADS = 128
"""The number of threads of a block: as many as Vulkan guarantees."""
BLOCKS = 4
"""The number of blocks that a multiprocessor should compute at once: each block mostly waits for shared memory."""
VECTOR = 4
"""The number of adjacent elements that a thread moves together."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a block of THREADS: ``rows`` queries, and ``keys`` keys and values at a time in shared memory.

    ``row_threads`` x `key_threads` threads compute scores, each of ``rows`` / ``row_threads`` rows and some keys.
    ``parts`` x `row_groups` x `column_threads` threads compute outputs, each ``group`` rows x ``columns`` numbers over
    one part of the keys. The other threads, if any, wait.
    """

    rows: int
    keys: int
    row_threads: int
    group: int
    columns: int
    parts: int
    depth: int
    width: int

    @property
    def key_threads(self) -> int:
        """The number of threads that share the keys of the scores."""
        return min(THREADS // self.row_threads, self.keys)

    @property
    def few(self) -> int:
        """The number of elements of a query that are read together."""
        return VECTOR if self.depth % VECTOR == 0 else 1

    @property
    def stride(self) -> int:
        """The step from one query or key in shared memory to the next, in elements.

        It is padded so that neighbours are in different memory banks.
        """
        return self.depth + (VECTOR if self.few > 1 else 1 - self.depth % 2)

    @property
    def score_stride(self) -> int:
        """The step from one row of scores to the next in shared memory, in elements."""
        return self.keys + VECTOR

    @property
    def row_groups(self) -> int:
        """The number of threads that share the rows of the outputs."""
        return self.rows // self.group

    @property
    def column_threads(self) -> int:
        """The number of threads that share the columns of the outputs."""
        return self.width // self.columns

    @property
    def lanes(self) -> int:
        """The number of threads that share the maximum and the sum of a row."""
        return THREADS // self.rows

    @property
    def merged(self) -> int:
        """The number of elements in shared memory for the outputs of all parts of the keys; 0 with one part."""
        return self.parts * self.rows * self.width if self.parts > 1 else 0

    @property
    def shared_bytes(self) -> int:
        """The size of a block's shared memory in bytes."""
        operands = (self.rows + self.keys) * self.stride + self.keys * self.width
        return 4 * (operands + self.rows * self.score_stride + THREADS + self.rows + self.merged)


def choose_sizes(form: Attention, limits: GpuLimits) -> Sizes | None:
    """Return the sizes of a block, or None if no block fits the target's limits."""
    for rows in _list_rows(form, limits):
        for sizes in _list_sizes(form, rows):
            if sizes.shared_bytes <= limits.shared_bytes and limits.threads >= THREADS:
                return sizes
    return None


def _list_rows(form: Attention, limits: GpuLimits) -> Iterator[int]:
    """Yield numbers of rows, the best first: fewer if otherwise most of the GPU would be idle."""
    heads = math.prod(form.heads)
    rows = 32
    while rows > 8 and heads * math.ceil(form.rows / rows) < BLOCKS * limits.multiprocessors:
        rows //= 2
    while rows > 1 and rows // 2 >= form.rows:
        rows //= 2
    while rows:
        yield rows
        rows //= 2


def _list_sizes(form: Attention, rows: int) -> Iterator[Sizes]:
    columns = next(few for few in (VECTOR, 2, 1) if form.width % few == 0)
    across = form.width // columns
    group = next((each for each in (2, 4, 8, 16, 32) if each <= rows and rows // each * across <= THREADS), rows)
    group = 1 if rows == 1 else group
    if rows // group * across > THREADS:
        return
    parts = 1
    while 2 * parts * (rows // group) * across <= THREADS:
        parts *= 2
    row_threads = max(1, min(8, rows // 2))
    for keys in (128, 64, 32, 16, 8):
        for threads in (row_threads, min(rows, 2 * row_threads), min(rows, 4 * row_threads), rows):
            suits = keys % min(THREADS // threads, keys) == 0
            if suits and (keys <= 64 or rows < 8) and (keys // 2 < form.keys or keys == 8):
                yield Sizes(rows, keys, threads, group, columns, min(parts, keys // VECTOR), form.depth, form.width)
