"""The loops that kernels share: threads of the pool, vectors, threads of blocks, and reductions over a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int32, int64, wide
from tvmbuild.compiler.kernels.vectors import local

THREADS = 256
"""The number of threads of a block; every GPU target allows as many."""


@contextmanager
def each_row(rows: int, columns: int, *, on_gpu: bool) -> Iterator[tuple[Any, Any]]:
    """Yield (row, column) of each element of a matrix, and write the body for it in the block.

    On a CPU, threads share the rows, and a row's columns are a serial loop. On a GPU, each element has its thread.
    """
    if not on_gpu:
        with T.parallel(int64(rows)) as row, T.serial(int64(columns)) as column:
            yield row, column
        return
    with each_thread(rows * columns) as place:
        yield T.Bind(place // columns), T.Bind(place % columns)


@contextmanager
def each_thread(count: int) -> Iterator[Any]:
    """Yield the number of a GPU's thread, from 0 to ``count``, and write the body for it in the block."""
    with (
        T.thread_binding(*wide(0, -(-count // THREADS)), thread="blockIdx.x") as block,
        T.thread_binding(*wide(0, THREADS), thread="threadIdx.x") as thread,
    ):
        place = T.Bind(block * THREADS + thread)
        with where(place < int64(count), always=count % THREADS == 0):
            yield place


@contextmanager
def each_block(count: int) -> Iterator[tuple[Any, Any]]:
    """Yield (block, thread) of a GPU's blocks, from 0 to ``count`` and ``THREADS``, and write the body for them."""
    with (
        T.thread_binding(*wide(0, count), thread="blockIdx.x") as block,
        T.thread_binding(*wide(0, THREADS), thread="threadIdx.x") as thread,
    ):
        yield block, thread


@contextmanager
def one_block() -> Iterator[Any]:
    """Yield the number of a thread of a GPU's only block, from 0 to ``THREADS``, and write the body for it."""
    with each_block(1) as (_, thread):
        yield thread


def list_partners(thread: Any) -> Iterator[Any]:
    """Yield, for each round of a reduction over a block, the thread whose partial result this thread adds to its own.

    After the last round, all threads have the result. All threads pair in each round, because TVM cannot let some of
    them wait for others in a branch.
    """
    stride = THREADS // 2
    while stride:
        yield T.Bind(tirx.bitwise_xor(thread, int64(stride)))
        stride //= 2


def add_up_before(value: Any, thread: Any) -> tuple[Any, Any]:
    """Return the sum of an int32 of the threads before this one in a block, and the sum of all threads.

    The order of the threads is that of their numbers with the bits reversed.
    """
    shared = T.alloc_buffer([THREADS], "int32", scope="shared", layout=None)
    sums = local(2, "int32")
    T.buffer_store(sums, int32(0), [0])
    T.buffer_store(sums, value, [1])
    for partner in list_partners(thread):
        T.buffer_store(shared, sums[1], [thread])
        other = T.Bind(shared[partner])
        T.buffer_store(sums, sums[0] + tirx.Select(partner < thread, other, int32(0)), [0])
        T.buffer_store(sums, sums[1] + other, [1])
    return T.Bind(sums[0]), T.Bind(sums[1])


@contextmanager
def where(condition: Any, *, always: bool) -> Iterator[None]:
    """Write the block's code inside an if with this condition; ``always``: without an if, because it always holds."""
    if always:
        yield
        return
    with T.If(condition), T.Then():
        yield


@contextmanager
def each_chunk(count: int, lanes: int) -> Iterator[Any]:
    """Yield the first of ``lanes`` neighbouring elements, and write the body for them; threads of a CPU share the work.

    The last vector overlaps the one before it, so that both write the same values; ``count`` is at least ``lanes``.
    """
    with T.parallel(int64(-(-count // lanes))) as chunk:
        yield T.Bind(tirx.Min(chunk * lanes, int64(count - lanes)))


def each_vector(span: tuple[int, int], lanes: int, write: Callable[[Any, int], None]) -> None:
    """Write the loop over a span in vectors, and the elements that are left one by one.

    ``write`` takes the first element of a vector and the number of its elements.
    """
    begin, end = span
    whole = (end - begin) // lanes
    if whole:
        with T.serial(int64(whole)) as step:
            write(step * lanes + begin, lanes)
    rest = begin + whole * lanes
    if rest < end:
        with T.serial(int64(end - rest)) as step:
            write(step + rest, 1)
