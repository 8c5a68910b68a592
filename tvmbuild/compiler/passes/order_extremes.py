"""Maxima and minima that start from an infinity, on GPUs: of integers in the order of the floats.

Threads share the steps of a reduction only by operations that TVM knows with their first value: the maximum of floats
with the least finite one. The importer starts from an infinity where a row may have no other elements. Integers in the
order of the floats have no infinities, and NaN comes first among them, as in NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, te, tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_blocks

_BITS = {"bfloat16": "float32", "float16": "float32", "float32": "float32", "float64": "float64"}
"""The type whose bits are ordered, for each type of floats; not every GPU has integers of 16 bits."""
_INTEGERS = {"float32": "int32", "float64": "int64"}
_INFINITY = {"float32": 0x7F800000, "float64": 0x7FF0000000000000}


def order_extremes(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace each function that is a maximum or minimum of floats, started from an infinity, by one of integers."""
    return map_prim_funcs(mod, lambda function, _name: _rewrite(function))


def _rewrite(function: tirx.PrimFunc) -> tirx.PrimFunc:
    blocks = [block for block in list_blocks(function) if block.name_hint != "root"]
    if len(blocks) != 1 or not _is_extreme(blocks[0]):
        return function
    (block,) = blocks
    (read,), (written,) = block.reads, block.writes
    data, output = read.source, written.source
    steps = {each.var for each in block.iter_vars if each.iter_type == tirx.IterVar.CommReduce}
    reduced = [axis for axis, each in enumerate(read.region) if each.min in steps]
    kept = [axis for axis in range(len(data.shape)) if axis not in reduced]
    own = kept if len(kept) == len(output.shape) else range(len(data.shape))
    largest = isinstance(block.body.value, tirx.Max)
    source = te.placeholder(data.shape, data.dtype, "data")
    keys = te.compute(data.shape, lambda *at: _make_key(source[at], largest=largest), "keys")
    loops = {axis: te.reduce_axis((0, data.shape[axis]), f"k{axis}") for axis in reduced}

    def find(*at: Any) -> Any:
        place = dict(zip(own, at, strict=True)) | loops
        return (te.max if largest else te.min)(keys[tuple(place[axis] for axis in sorted(place))], [*loops.values()])

    shape = [int64(int(size)) for size in output.shape]
    found = te.compute(shape, find, "found")
    result = te.compute(shape, lambda *at: _read_key(found[at], str(data.dtype)), "extreme")
    return te.create_prim_func([source, result]).with_attrs(function.attrs)


def _is_extreme(block: s_tir.SBlock) -> bool:
    """Return whether a block reduces whole axes of a tensor of floats, from an infinity on."""
    first = block.init.value if isinstance(block.init, tirx.BufferStore) else None
    if not (
        isinstance(first, tirx.FloatImm)
        and math.isinf(first.value)
        and isinstance(block.body, tirx.BufferStore)
        and isinstance(block.body.value, tirx.Max | tirx.Min)
    ):
        return False
    sides = {type(side) for side in (block.body.value.a, block.body.value.b)}
    own = {each.var for each in block.iter_vars}
    places = [
        each.min for read in block.reads for each in read.region if not tvm_ffi.structural_equal(each.min, int64(0))
    ]
    return sides == {tvm.ir.TensorLoad} and len(block.reads) == 1 and own.issuperset(places)


def _make_key(value: Any, *, largest: bool) -> Any:
    """Return the integer of a float: they have the same order, and NaN is beyond all others."""
    floats = _BITS[str(value.dtype)]
    integers = _INTEGERS[floats]
    bits = tirx.reinterpret(integers, value.astype(floats))
    size = bits & tirx.max_value(integers)
    nan = tirx.max_value(integers) if largest else tirx.const(tirx.min_value(integers).value + 1, integers)
    return tirx.Select(
        size > tirx.const(_INFINITY[floats], integers),
        nan,
        tirx.Select(bits < 0, bits ^ tirx.max_value(integers), bits),
    )


def _read_key(key: Any, dtype: str) -> Any:
    floats = _BITS[dtype]
    bits = tirx.Select(key < 0, key ^ tirx.max_value(_INTEGERS[floats]), key)
    return tirx.reinterpret(floats, bits).astype(dtype)
