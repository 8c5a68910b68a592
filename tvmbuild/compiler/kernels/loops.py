"""The outermost loops of a kernel: threads of the pool on CPUs, threads of blocks on GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64, wide

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
        if count % THREADS == 0:
            yield place
        else:
            with T.If(place < int64(count)), T.Then():
                yield place
