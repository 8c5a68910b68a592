"""The state of a block of threads that computes some queries: shared memory, registers, and places of operands."""

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
    """The state of a block of threads. Shared memory is float32."""

    form: Attention
    sizes: Sizes
    thread: Any
    first: Any
    """The block's first query."""
    queries: Any
    """The scaled queries, [rows, stride]."""
    keys: Any
    """The keys, [keys, stride]."""
    values: Any
    """The values, [keys, width]."""
    scores: Any
    """The scores, later the weights, [rows, score_stride]."""
    found: Any
    """The maximum that each thread found, and at the end its sum, [rows, lanes]."""
    factors: Any
    """The factors that correct the running sums, [rows]."""
    merged: Any
    """The outputs of each part of the keys, [parts, rows, width], or None if there is only one part."""
    largest: Any
    """The running maximum of the thread's row."""
    total: Any
    """The thread's share of the running sum of its row."""
    sums: Any
    """The thread's running outputs, [group, columns]."""


def is_aligned(operand: Operand, width: int) -> bool:
    """Return whether rows of ``width`` numbers consist of aligned vectors of `VECTOR` adjacent elements."""
    steps = (operand.offset, operand.row, *operand.heads, width)
    return operand.column == 1 and all(step % VECTOR == 0 for step in steps)


def shared(count: int) -> Any:
    """Return a float32 buffer that all threads of a block share."""
    return T.alloc_buffer(wide(max(1, count)), "float32", scope="shared", layout=None)


def begin_block(form: Attention, sizes: Sizes, buffers: tuple[list[Any], Any], place: tuple[Any, Any, Any]) -> Block:
    """Begin a block of threads, and return its state.

    ``buffers`` are the flat inputs and the flat output, and ``place`` is (head, block of rows, thread).
    """
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
    """A copy of rows to shared memory. In between, each thread holds some vectors of the rows in registers."""

    block: Block
    source: Place
    count: int
    """The number of rows to copy."""
    most: int
    """The number of rows in the source; a copy of more rows repeats the last one."""
    width: int
    target: Any
    stride: int
    """The step from one row to the next in shared memory, in elements."""

    @property
    def few(self) -> int:
        """The number of elements in a vector."""
        return VECTOR if is_aligned(self.source.operand, self.width) and self.stride % VECTOR == 0 else 1

    @property
    def steps(self) -> int:
        """The number of vectors that a thread copies."""
        return -(-self.count * self.width // (self.few * THREADS))

    def registers(self) -> Any:
        """Return the registers that hold the vectors between `fetch` and `put`."""
        return local(self.steps * self.few)

    def fetch(self, kept: Any, first: Any) -> None:
        """Load the rows from ``first`` on into the registers ``kept``."""
        few = self.few
        for step in range(self.steps):
            row, column = self._locate(step)
            at = tirx.Min(first + tirx.Min(row, int64(self.count - 1)), int64(self.most - 1))
            value = load(self.source.buffer, self.source.at(at, column * few), few)
            store(kept, value, int64(step * few), few)

    def put(self, kept: Any, scale: float = 1.0) -> None:
        """Write the rows from the registers ``kept`` to shared memory, with all numbers multiplied by ``scale``."""
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
        """Return the row of a thread's vector and the vector's index in the row.

        Neighbouring threads read neighbouring vectors.
        """
        across, index = int64(self.width // self.few), self.block.thread + step * THREADS
        if self.source.operand.column == 1 or self.source.operand.row != 1:
            return index // across, index % across
        return index % self.count, tirx.Min(index // self.count, across - 1)
