"""The arguments of a kernel's function, and its buffers as kernels read and write them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, wide

Form = tuple[tuple[int, ...], str]
"""The shape and the dtype of an argument."""


@contextmanager
def begin_kernel(name: str, inputs: Sequence[Form], outputs: Sequence[Form]) -> Iterator[tuple[IRBuilder, list[Any]]]:
    """Yield (builder, flat arguments), and write the function's body in the block.

    After the block, ``builder.get()`` returns the function.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name(name)
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE, "estimated_flops": 0})
        forms = [*inputs, *outputs]
        arguments = [
            T.arg(f"data{place}", T.buffer(wide(*shape), dtype, layout=None))
            for place, (shape, dtype) in enumerate(forms)
        ]
        with T.sblock("root"):
            T.reads(*map(whole, arguments[: len(inputs)]))
            T.writes(*map(whole, arguments[len(inputs) :]))
            yield builder, list(map(flatten, arguments))


def whole(buffer: Any) -> Any:
    """Return the region of all elements of a buffer, to declare what a block reads or writes."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def flatten(buffer: Any) -> Any:
    """Declare and return a view of the buffer with a single axis."""
    size = math.prod(int(extent) for extent in buffer.shape)
    return T.decl_buffer(wide(size), str(buffer.dtype), data=buffer.data, layout=None)
