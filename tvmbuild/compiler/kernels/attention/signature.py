"""What every target's function has around what it computes: its name, its arguments, their memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, wide
from tvmbuild.compiler.kernels.attention.form import Attention


@contextmanager
def begin_function(form: Attention) -> Iterator[tuple[IRBuilder, list[Any], Any]]:
    """Yield the builder, the inputs and the output, flat; the builder has the function once that is left.

    See :class:`Attention` for its arguments.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("attention")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE, "estimated_flops": form.operations})
        arguments = [
            T.arg(f"data{place}", T.buffer(wide(*each.shape), each.dtype, layout=None))
            for place, each in enumerate(form.inputs)
        ]
        out = T.arg("out", T.buffer(wide(*form.output_shape), form.dtype, layout=None))
        with T.sblock("root"):
            T.reads(*(_whole(each) for each in arguments))
            T.writes(_whole(out))
            flat = [
                T.decl_buffer(wide(math.prod(each.shape)), each.dtype, data=argument.data, layout=None)
                for argument, each in zip(arguments, form.inputs, strict=True)
            ]
            made = T.decl_buffer(wide(math.prod(form.output_shape)), form.dtype, data=out.data, layout=None)
            yield builder, flat, made


def _whole(buffer: Any) -> Any:
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]
