"""The converter of TopK, without TVM's sort, which is in a library that packages do not contain."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import OPAQUE
from tvmbuild.compiler.kernels.top_k import TopK
from tvmbuild.errors import TvmbuildError

_K_AS_INPUT = 10


def convert_top_k(call: NodeCall) -> relax.Expr:
    """Convert TopK to the k largest or smallest values along an axis and their indices, in order.

    Of equal values, the first one comes first. Raises TvmbuildError if k is not constant or larger than the axis.
    """
    shape, axis = call.shape, call.attributes.get("axis", -1) % len(call.shape)
    k = _find_k(call)
    if not 1 <= k <= shape[axis]:
        raise TvmbuildError(f"it asks for {k} of {shape[axis]} elements", "correct its `k`")
    others = [number for number in range(len(shape)) if number != axis]
    last = call.data if axis == len(shape) - 1 else call.emit(relax.op.permute_dims, call.data, [*others, axis])
    count = int(np.prod([shape[each] for each in others], dtype=np.int64))
    form = TopK(count, shape[axis], k, call.dtype, bool(call.attributes.get("largest", 1)))
    rows = call.emit(relax.op.reshape, last, (form.rows, form.length))
    function = call.builder.add_func(write_top_k(form), "topk")
    types = [relax.TensorType((form.rows, k), dtype) for dtype in (form.dtype, "int64")]
    found = call.builder.emit(relax.call_tir(function, [rows], types))
    back = np.argsort([*others, axis]).tolist()
    parts = (call.builder.emit(relax.TupleGetItem(found, index)) for index in range(2))
    shaped = (call.emit(relax.op.reshape, part, [shape[each] for each in others] + [k]) for part in parts)
    return relax.Tuple(
        [part if axis == len(shape) - 1 else call.emit(relax.op.permute_dims, part, back) for part in shaped]
    )


def _find_k(call: NodeCall) -> int:
    if call.opset < _K_AS_INPUT:
        return int(call.attributes["k"])
    values = call.values(1)
    if values is None:
        raise TvmbuildError("its `k` depends on data, and a package has fixed shapes", "make `k` a constant")
    return int(values.reshape(-1)[0])


def write_top_k(form: TopK) -> tirx.PrimFunc:
    """Return the TensorIR function that sorts rows by insertion: [rows, length] to values and indices [rows, k]."""
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("topk")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        data = T.arg("data", T.buffer((form.rows, form.length), form.dtype, layout=None))
        values = T.arg("values", T.buffer((form.rows, form.k), form.dtype, layout=None))
        indices = T.arg("indices", T.buffer((form.rows, form.k), "int64", layout=None))
        with T.serial(form.rows) as number, T.sblock("topk"):
            row = T.axis.spatial(form.rows, number)
            T.reads(data[row, 0 : form.length])
            T.writes(values[row, 0 : form.k], indices[row, 0 : form.k])
            place = T.sblock_alloc_buffer((1,), "int32", scope="local", layout=None)
            with T.serial(form.length) as index:
                _insert(form, (data, values, indices, place), (row, index))
    return builder.get()


def _insert(form: TopK, buffers: tuple[Any, Any, Any, Any], at: tuple[Any, Any]) -> None:
    data, values, indices, place = buffers
    row, index = at

    def goes_before(slot: Any) -> Any:
        return data[row, index] > values[row, slot] if form.largest else data[row, index] < values[row, slot]

    with T.If(tirx.any(index < form.k, goes_before(form.k - 1))), T.Then():
        T.buffer_store(place, tirx.min(index, form.k - 1), [0])
        before = tirx.max(place[0] - 1, 0)  # the first slot has no predecessor
        with T.While(tirx.all(place[0] > 0, goes_before(before))):
            T.buffer_store(values, values[row, before], [row, place[0]])
            T.buffer_store(indices, indices[row, before], [row, place[0]])
            T.buffer_store(place, place[0] - 1, [0])
        T.buffer_store(values, data[row, index], [row, place[0]])
        T.buffer_store(indices, tirx.Cast("int64", index), [row, place[0]])
