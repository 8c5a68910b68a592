"""What a block of threads has while it computes some queries: shared memory, registers, and where numbers lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64, wide
from tvmbuild.compiler.kernels.attention.form import Attention, Operand, Place, Places, find_places
from tvmbuild.compiler.kernels.attention.gpu.sizes import THREADS, VECTOR, Sizes
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store


@dataclass(frozen=True)
class Block(Places):
    """A block of threads. What is shared is float32."""

    form: Attention
    sizes: Sizes
    thread: Any
    first: Any
    """The block's first query."""
    queries: Any
    """[rows, stride], scaled."""
    keys: Any
    """[keys, stride]"""
    values: Any
    """[keys, width]"""
    scores: Any
    """[rows, score_stride]: then weights."""
    found: Any
    """[rows, lanes]: maxima, at the end sums."""
    factors: Any
    """[rows], of the sums so far."""
    merged: Any
    """[parts, rows, width]: the parts' outputs."""
    largest: Any
    """Of a thread's own row so far."""
    total: Any
    """What the thread has added to its own row's sum so far."""
    sums: Any
    """[group, columns]: outputs so far."""


def is_aligned(operand: Operand, width: int) -> bool:
    """Say whether rows of ``width`` numbers are vectors."""
    steps = (operand.offset, operand.row, *operand.heads, width)
    return operand.column == 1 and all(step % VECTOR == 0 for step in steps)


def shared(count: int) -> Any:
    """Return a buffer of float32 of all threads of a block."""
    return T.alloc_buffer(wide(max(1, count)), "float32", scope="shared", layout=None)


def begin_block(form: Attention, sizes: Sizes, buffers: tuple[list[Any], Any], place: tuple[Any, Any, Any]) -> Block:
    """Write where it begins; ``buffers``: the inputs and the output, flat; ``place``: head, block of rows, thread."""
    return Block(
        **vars(find_places(form, *buffers, place[0])),
        form=form,
        sizes=sizes,
        thread=place[2],
        first=T.Bind(place[1] * sizes.rows),
        queries=shared(sizes.rows * sizes.stride),
        keys=shared(sizes.keys * sizes.stride),
        values=shared(sizes.keys * sizes.width),
        scores=shared(sizes.rows * sizes.score_stride),
        found=shared(THREADS),
        factors=shared(sizes.rows),
        merged=shared(sizes.merged) if sizes.merged else None,
        largest=local(1),
        total=local(1),
        sums=local(sizes.group * sizes.columns),
    )


@dataclass(frozen=True)
class Rows:
    """Rows on their way to shared memory: each thread has some vectors of them in registers meanwhile."""

    block: Block
    source: Place
    count: int
    """How many rows there are."""
    most: int
    """How many the source has: beyond them the last one comes again."""
    width: int
    target: Any
    stride: int
    """From row to row in shared memory."""

    @property
    def few(self) -> int:
        """Return how many numbers a vector has."""
        return VECTOR if is_aligned(self.source.operand, self.width) and self.stride % VECTOR == 0 else 1

    @property
    def steps(self) -> int:
        """Return how many vectors a thread has."""
        return -(-self.count * self.width // (self.few * THREADS))

    def registers(self) -> Any:
        """Return what they are kept in on the way."""
        return local(self.steps * self.few)

    def fetch(self, kept: Any, first: Any) -> None:
        """Read the rows from ``first`` on."""
        few = self.few
        for step in range(self.steps):
            row, column = self._locate(step)
            at = tirx.Min(first + tirx.Min(row, int64(self.count - 1)), int64(self.most - 1))
            value = load(self.source.buffer, self.source.at(at, column * few), few)
            store(kept, value, int64(step * few), few)

    def put(self, kept: Any, scale: float = 1.0) -> None:
        """Write them to shared memory, all numbers times ``scale``."""
        few = self.few
        everything = self.count * self.width // few
        for step in range(self.steps):
            row, column = self._locate(step)
            value = load(kept, int64(step * few), few)
            value = value if scale == 1 else value * spread(number(scale), few)
            if (step + 1) * THREADS <= everything:
                store(self.target, value, row * self.stride + column * few, few)
            else:
                with T.If(self.block.thread < int64(everything - step * THREADS)), T.Then():
                    store(self.target, value, row * self.stride + column * few, few)

    def _locate(self, step: int) -> tuple[Any, Any]:
        """Return a vector's row and its place in it: neighbouring threads read what lies side by side."""
        across, index = int64(self.width // self.few), self.block.thread + step * THREADS
        if self.source.operand.column == 1 or self.source.operand.row != 1:
            return index // across, index % across
        return index % self.count, tirx.Min(index // self.count, across - 1)
