"""TopK without TVM's sort, which is in a library that packages do not contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import OPAQUE
from tvmbuild.errors import TvmbuildError

_K_AS_INPUT = 10


@dataclass(frozen=True)
class Sizes:
    """Rows, their length, and how many elements of each are wanted."""

    rows: int
    length: int
    k: int


def convert_top_k(call: NodeCall) -> relax.Expr:
    """Return the k largest or smallest values along an axis and their indices, in order; the first of equals wins."""
    shape, axis = call.shape, call.attributes.get("axis", -1) % len(call.shape)
    k = _find_k(call)
    if not 1 <= k <= shape[axis]:
        raise TvmbuildError(f"it asks for {k} of {shape[axis]} elements", "correct its `k`")
    others = [number for number in range(len(shape)) if number != axis]
    last = call.data if axis == len(shape) - 1 else call.emit(relax.op.permute_dims, call.data, [*others, axis])
    sizes = Sizes(int(np.prod([shape[each] for each in others], dtype=np.int64)), shape[axis], k)
    rows = call.emit(relax.op.reshape, last, (sizes.rows, sizes.length))
    function = call.builder.add_func(write_top_k(sizes, call.dtype, bool(call.attributes.get("largest", 1))), "topk")
    types = [relax.TensorType((sizes.rows, k), dtype) for dtype in (call.dtype, "int64")]
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


def write_top_k(sizes: Sizes, dtype: str, largest: bool) -> tirx.PrimFunc:
    """Return the insertion sort from [rows, length] to values and indices, both [rows, k]."""
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("topk")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        data = T.arg("data", T.buffer((sizes.rows, sizes.length), dtype, layout=None))
        values = T.arg("values", T.buffer((sizes.rows, sizes.k), dtype, layout=None))
        indices = T.arg("indices", T.buffer((sizes.rows, sizes.k), "int64", layout=None))
        with T.serial(sizes.rows) as number, T.sblock("topk"):
            row = T.axis.spatial(sizes.rows, number)
            T.reads(data[row, 0 : sizes.length])
            T.writes(values[row, 0 : sizes.k], indices[row, 0 : sizes.k])
            place = T.sblock_alloc_buffer((1,), "int32", scope="local", layout=None)
            with T.serial(sizes.length) as index:
                _insert(sizes, (data, values, indices, place), (row, index), largest)
    return builder.get()


def _insert(sizes: Sizes, buffers: tuple[Any, Any, Any, Any], at: tuple[Any, Any], largest: bool) -> None:
    data, values, indices, place = buffers
    row, index = at

    def goes_before(slot: Any) -> Any:
        return data[row, index] > values[row, slot] if largest else data[row, index] < values[row, slot]

    with T.If(tirx.any(index < sizes.k, goes_before(sizes.k - 1))), T.Then():
        T.buffer_store(place, tirx.min(index, sizes.k - 1), [0])
        before = tirx.max(place[0] - 1, 0)  # the first slot has no predecessor
        with T.While(tirx.all(place[0] > 0, goes_before(before))):
            T.buffer_store(values, values[row, before], [row, place[0]])
            T.buffer_store(indices, indices[row, before], [row, place[0]])
            T.buffer_store(place, place[0] - 1, [0])
        T.buffer_store(values, data[row, index], [row, place[0]])
        T.buffer_store(indices, tirx.Cast("int64", index), [row, place[0]])
