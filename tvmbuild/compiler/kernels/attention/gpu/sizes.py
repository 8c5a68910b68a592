"""How a block of a GPU's threads shares some queries of a head: which sizes fit, and which are chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvmbuild.compiler.kernels.attention.form import Attention
from tvmbuild.compiler.machine.limits import GpuLimits

THREADS = 128
"""Of a block: all that Vulkan promises."""
BLOCKS = 4
"""That a multiprocessor computes at once: each waits for shared memory most of the time."""
VECTOR = 4
"""Numbers that a thread moves together where they lie side by side."""


@dataclass(frozen=True)
class Sizes:
    """A block of THREADS: ``rows`` queries pass ``keys`` keys at a time, which lie in shared memory with their values.

    Scores: ``row_threads`` times as many threads as keys have, each ``rows`` / ``row_threads`` rows of some keys.
    Outputs: ``parts`` x ``row_groups`` x ``column_threads`` threads, each ``group`` rows x ``columns`` numbers of one
    part of the keys. The rest of the threads, if any, waits.
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
        """Return how many threads have keys of their own."""
        return min(THREADS // self.row_threads, self.keys)

    @property
    def few(self) -> int:
        """Return how many numbers of a query are read together."""
        return VECTOR if self.depth % VECTOR == 0 else 1

    @property
    def stride(self) -> int:
        """Return from one query or key in shared memory to the next: neighbours are in other banks."""
        return self.depth + (VECTOR if self.few > 1 else 1 - self.depth % 2)

    @property
    def score_stride(self) -> int:
        """Return from one row of scores to the next."""
        return self.keys + VECTOR

    @property
    def row_groups(self) -> int:
        """Return how many threads the rows of the outputs are divided among."""
        return self.rows // self.group

    @property
    def column_threads(self) -> int:
        """Return how many threads the columns of the outputs are divided among."""
        return self.width // self.columns

    @property
    def lanes(self) -> int:
        """Return how many threads a row's maximum and sum are divided among."""
        return THREADS // self.rows

    @property
    def merged(self) -> int:
        """Return how many numbers the parts' outputs take in shared memory."""
        return self.parts * self.rows * self.width if self.parts > 1 else 0

    @property
    def shared_bytes(self) -> int:
        """Return what a block has in shared memory."""
        operands = (self.rows + self.keys) * self.stride + self.keys * self.width
        return 4 * (operands + self.rows * self.score_stride + THREADS + self.rows + self.merged)


def choose_sizes(form: Attention, limits: GpuLimits) -> Sizes | None:
    """Return the sizes; None where no block fits the target."""
    for rows in _list_rows(form, limits):
        for sizes in _list_sizes(form, rows):
            if sizes.shared_bytes <= limits.shared_bytes and limits.threads >= THREADS:
                return sizes
    return None


def _list_rows(form: Attention, limits: GpuLimits) -> Iterator[int]:
    """Give numbers of rows, the best first: fewer where else most of the card would have nothing to do."""
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
