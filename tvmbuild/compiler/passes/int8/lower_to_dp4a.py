"""Integer convolutions and products on GPUs with ``dp4a``: operands are packed into 32-bit words of four channels.

The sum of products of words is scheduled like any other sum of 32-bit numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.byte_matrices import add_up, are_paired
from tvmbuild.compiler.codegen.byte_products import BYTES, multiply_bytes
from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import find_origin
from tvmbuild.compiler.ir.expressions import (
    FUSABLE_WITH_ELEMENTWISE,
    INJECTIVE,
    constant,
    int32,
    shift,
    static_shape,
    wide,
)
from tvmbuild.compiler.ir.obstacles import list_computed_weights, list_layouts
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_main
from tvmbuild.compiler.kernels.int8.dot_kernels import CONVOLUTION, PRODUCT
from tvmbuild.compiler.machine.target import multiplies_bytes
from tvmbuild.compiler.passes.int8.quant_params import UNSIGNED
from tvmbuild.compiler.remarks import is_missed, missed

_PACK = "pack_bytes"
_OF_ZEROS = int(np.full(BYTES, -UNSIGNED, np.int8).view(np.int32)[0])
"""A word of four uint8 zeros after their shift to int8."""


def lower_to_dp4a(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite NCHW convolutions and products of bytes with int8 weights if the target has `dp4a`.

    A convolution's groups must consist of whole words. A product's second operand is a constant or another int8 tensor.
    """
    if not multiplies_bytes(target):
        return mod
    return rewrite_main(mod, _LowerToDp4a(mod), DROP_UNUSED)


@mutator
class _LowerToDp4a(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule) -> None:
        super().__init__(mod)
        self._words: dict[tuple[relax.Expr, int], relax.Expr] = {}
        """A tensor and the axis along which it is packed → its words."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if is_call(call, "relax.nn.conv2d") and _is_of_bytes(call) and not is_missed(_list_obstacles(call)):
            return self._convolve(call)
        if is_call(call, "relax.matmul") and _is_of_bytes(call):
            if are_paired(*call.args):
                return self._multiply(call)
            missed("it is of vectors, or spreads one operand's matrices")
        return call

    def _convolve(self, call: relax.Call) -> relax.Expr:
        weights = call.args[1].value.numpy()
        words, by = self._pack(call.args[0], 1)
        packed = constant(_pack_constant(weights, 1))
        sums = self._call(CONVOLUTION, _write_convolution(call, words, packed, _OF_ZEROS if by else 0), call)
        if not by:
            return sums
        more = by * weights.astype(np.int64).sum(axis=(1, 2, 3)).reshape(-1, 1, 1)
        return relax.op.add(self.builder_.emit(sums), constant(more.astype(np.int32)))

    def _multiply(self, call: relax.Call) -> relax.Expr:
        """Multiply all matrices of the data by one matrix, constant or computed, or each by its own matrix."""
        data, right = call.args
        words, by = self._pack(data, len(data.ty.shape.values) - 1)
        if isinstance(right, tvm.ir.GenericConst):
            packed = constant(_pack_constant(right.value.numpy(), right.ty.ndim - 2))
        else:
            packed, _ = self._pack(right, right.ty.ndim - 2)
        sums = self._call(PRODUCT, _write_product(call, words, packed), call)
        if not by:
            return sums
        columns = self.builder_.emit(relax.op.multiply(add_up(self.builder_.emit, right, -2), relax.const(by, "int32")))
        return relax.op.add(self.builder_.emit(sums), columns)

    def _call(self, name: str, made: _Made, call: relax.Call) -> relax.Expr:
        function, arguments = made
        return relax.call_tir(self.builder_.add_func(function, name), arguments, call.ty)

    def _pack(self, data: relax.Expr, axis: int) -> tuple[relax.Expr, int]:
        """Return the data packed into words along ``axis``, and the number that was subtracted from each byte."""
        by = 0 if str(data.ty.dtype) == "int8" else UNSIGNED
        key = find_origin(self.lookup_binding, data), axis
        if key not in self._words:
            signed = shift(self.builder_.emit, data, -by, "int8") if by else data
            function, shape = _write_packing(signed, axis)
            made = relax.call_tir(self.builder_.add_func(function, _PACK), [signed], relax.TensorType(shape, "int32"))
            self._words[key] = self.builder_.emit(made)
        return self._words[key], by


_Made = tuple[tirx.PrimFunc, list[relax.Expr]]
"""A function and its arguments."""


def _write_convolution(call: relax.Call, words: relax.Expr, packed: relax.Expr, zeros: int) -> _Made:
    """Write the sums of a convolution; ``zeros`` is the word of four zeros of the data."""
    data, weights = _placeholder(words), _placeholder(packed)
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)
    pads = [int(each) for each in call.attrs.padding]
    read = topi.nn.pad(data, wide(0, 0, *pads[:2]), wide(0, 0, *pads[2:]), int32(zeros)) if any(pads) else data
    outputs, depth = (int(each) for each in packed.ty.shape.values[:2])
    each = outputs // int(call.attrs.groups)
    word, row, column = (_reduce(extent) for extent in packed.ty.shape.values[1:])

    def multiply(n: Any, o: Any, y: Any, x: Any) -> Any:
        channel = word if each == outputs else o // each * depth + word
        number = read[n, channel, y * down + row * below, x * right + column * beside]
        return te.sum(multiply_bytes(number, weights[o, word, row, column]), axis=[word, row, column])

    sums = te.compute(call.ty.shape.values, multiply, name=CONVOLUTION)
    return _finish([data, weights, sums], FUSABLE_WITH_ELEMENTWISE), [words, packed]


def _write_product(call: relax.Call, words: relax.Expr, packed: relax.Expr) -> _Made:
    data, weights = _placeholder(words), _placeholder(packed)
    *many, depth, _ = packed.ty.shape.values
    word = _reduce(depth)

    def multiply(*at: Any) -> Any:
        weight = weights(*at[: len(many)], word, at[-1])
        return te.sum(multiply_bytes(data(*at[:-1], word), weight), axis=[word])

    sums = te.compute(call.ty.shape.values, multiply, name=PRODUCT)
    return _finish([data, weights, sums], FUSABLE_WITH_ELEMENTWISE), [words, packed]


def _write_packing(data: relax.Expr, axis: int) -> tuple[tirx.PrimFunc, Sequence[Any]]:
    """Write the function that packs four neighbours along ``axis`` into a word; return it and the shape of the words.

    Zeros fill up the last word.
    """
    source, extent = _placeholder(data), int(data.ty.shape.values[axis])
    shape = list(data.ty.shape.values)
    (shape[axis],) = wide(-(-extent // BYTES))

    def read(at: Sequence[Any], place: int) -> Any:
        index = at[axis] * BYTES + place
        number = source(*at[:axis], index, *at[axis + 1 :]).astype("int32")
        if extent % BYTES:
            number = tirx.if_then_else(index < extent, number, int32(0))
        return (number & int32(255)) << int32(8 * place)

    def pack(*at: Any) -> Any:
        first, *others = (read(at, place) for place in range(BYTES))
        for each in others:
            first = first | each
        return first

    return _finish([source, te.compute(shape, pack, name=_PACK)], INJECTIVE), shape


def _pack_constant(values: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Pack int8 weights into int32 words of four neighbours along ``axis``."""
    extent = values.shape[axis]
    last = np.moveaxis(values, axis, -1)
    filled = np.pad(last, [(0, 0)] * (last.ndim - 1) + [(0, -extent % BYTES)])
    words = np.ascontiguousarray(filled).view("<i4").astype(np.int32)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


def _is_of_bytes(call: relax.Call) -> bool:
    """Return whether the call multiplies bytes by int8 and adds up in int32, with tensors of known shapes."""
    data, weights = call.args
    types = (str(data.ty.dtype), str(weights.ty.dtype), str(call.ty.dtype))
    is_known = all(static_shape(each) for each in (data, weights, call))
    return types in {("int8", "int8", "int32"), ("uint8", "int8", "int32")} and is_known


def _list_obstacles(call: relax.Call) -> Iterator[str]:
    yield from list_layouts(call, "NCHW", "OIHW")
    yield from list_computed_weights(call)
    groups, inputs = int(call.attrs.groups), int(call.args[1].ty.shape.values[1])
    if groups > 1 and inputs % BYTES:
        yield f"the {inputs} channels of a group are not whole words of {BYTES}"


def _placeholder(expr: relax.Expr) -> te.Tensor:
    return te.placeholder(expr.ty.shape.values, str(expr.ty.dtype))


def _reduce(extent: Any) -> Any:
    return te.reduce_axis(wide(0, int(extent)))


def _finish(arguments: list[te.Tensor], pattern: int) -> tirx.PrimFunc:
    return te.create_prim_func(arguments).without_attr("global_symbol").with_attr("op_pattern", pattern)
