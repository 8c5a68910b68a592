"""The kernel that lists the positions of elements that are not zero, of their prefix sums.

An element that is found has as many before it as the sum at its place says, so that all are written at the same time.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import each_thread

POSITIONS = "true_positions"
"""The name of the function."""


def write_positions(size: int, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from elements and their prefix sums, int32 [size], to positions, int64 [size], and a count.

    After the positions are zeros.
    """
    forms = [((size,), "int32"), ((size,), "int32")]
    outputs = [((size,), "int64"), ((1,), "int64")]
    with begin_kernel(POSITIONS, forms, outputs) as (builder, arguments):
        if on_gpu:
            with each_thread(size) as place:
                _write(arguments, size, place)
        else:
            with T.serial(int64(size)) as place:
                _write(arguments, size, place)
    return mark_scheduled(builder.get())


def _write(arguments: list[Any], size: int, place: Any) -> None:
    flags, sums, positions, count = arguments
    total = T.Bind(sums[int64(size - 1)])
    with T.If(place == int64(0)), T.Then():
        T.buffer_store(count, total.astype("int64"), [0])
    with T.If(place >= total.astype("int64")), T.Then():
        T.buffer_store(positions, int64(0), [place])
    with T.If(flags[place] != int32(0)), T.Then():
        T.buffer_store(positions, place, [(sums[place] - int32(1)).astype("int64")])
