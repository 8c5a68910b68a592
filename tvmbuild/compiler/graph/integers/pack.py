"""Integer convolutions in NHWC and products of matrices: weights in the order in which a dot instruction takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.calls import is_call
from tvmbuild.compiler.dot_instructions import ANNOTATION, DotInstruction, find_instruction
from tvmbuild.compiler.expressions import FUSABLE_WITH_ELEMENTWISE, constant, int64, static_shape, wide
from tvmbuild.compiler.graph.channels import is_constant_convolution
from tvmbuild.compiler.graph.rewrite import bound_value, rewrite_main

_NAME, _PRODUCT_NAME = "conv2d_int8", "matmul_int8"
_TO_NHWC = [0, 2, 3, 1]


def pack_integers(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite each NHWC convolution and each product with constant int8 weights that the target has one for."""
    instruction = find_instruction(target)
    if instruction is None:
        return mod
    return relax.transform.DeadCodeElimination()(rewrite_main(mod, _Rewriter(mod, instruction)))


@mutator
class _Rewriter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, instruction: DotInstruction) -> None:
        super().__init__(mod)
        self._instruction = instruction

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if _is_product_of_integers(call) and str(call.args[0].ty.dtype) == self._instruction.tensor:
            return self._pack_product(call)
        if not is_constant_convolution(call) or not _is_of_integers(call):
            return call
        groups, weights = int(call.attrs.groups), call.args[1].value.numpy()
        padded = self._find_padding(call)
        if groups == 1 and str(padded.source.ty.dtype) == self._instruction.tensor:
            padded = replace(padded, source=self._fill_groups(padded.source))
            instruction = self._fit(padded.source)
            packed = constant(_pack(weights, instruction))
            function = _write_dense(call, padded, packed, instruction)
        elif groups > 1 and weights.shape[2] == 1 and groups == weights.shape[3] and _is_exact(weights):
            packed = constant(weights[:, :, 0, :].astype(self._instruction.depthwise))
            function = _write_depthwise(call, padded, packed)
        else:
            return call
        return relax.call_tir(self.builder_.add_func(function, _NAME), [padded.source, packed], call.ty)

    def _find_padding(self, call: relax.Call) -> _Padded:
        """Return what the convolution pads, or what a padding before it does, of a picture in NCHW as well."""
        top, left, bottom, right = (int(each) for each in call.attrs.padding)
        own = _Padded(call.args[0], 0, (top, left), (bottom, right))
        if any((top, left, bottom, right)):
            return own
        before = bound_value(self, call.args[0])
        turned = is_call(before, "relax.permute_dims") and [int(axis) for axis in before.attrs.axes or ()] == _TO_NHWC
        pad = bound_value(self, before.args[0]) if turned else before
        if not is_call(pad, "relax.nn.pad") or pad.attrs.pad_mode != "constant":
            return own
        width = [int(each) for each in pad.attrs.pad_width]
        width = [width[2 * axis + side] for axis in (_TO_NHWC if turned else range(4)) for side in (0, 1)]
        if any(width[:2]) or any(width[6:]):
            return own
        source = self.builder_.emit(relax.op.permute_dims(pad.args[0], _TO_NHWC)) if turned else pad.args[0]
        return _Padded(source, int(pad.attrs.pad_value), (width[2], width[4]), (width[3], width[5]))

    def _pack_product(self, call: relax.Call) -> relax.Expr:
        data = self._fill_groups(call.args[0])
        instruction = self._fit(data)
        packed = constant(_pack(call.args[1].value.numpy()[None, None], instruction))
        function = _write_product(call, data, packed, instruction)
        return relax.call_tir(self.builder_.add_func(function, _PRODUCT_NAME), [data, packed], call.ty)

    def _fill_groups(self, data: relax.Expr) -> relax.Expr:
        """Return a tensor of whole groups of channels: what comes before it in the graph then writes it so."""
        shape = data.ty.shape.values
        more = -int(shape[-1]) % self._instruction.group
        if not more:
            return data
        return self.builder_.emit(relax.op.nn.pad(data, [0] * (2 * len(shape) - 1) + [more]))

    def _fit(self, data: relax.Expr) -> DotInstruction:
        return self._instruction.fit(int(data.ty.shape.values[-1]) // self._instruction.group)


@dataclass(frozen=True)
class _Padded:
    """A tensor with so many rows and columns more on each side, all of one number."""

    source: relax.Expr
    value: int
    before: tuple[int, int]
    after: tuple[int, int]


def _is_product_of_integers(call: relax.Call) -> bool:
    """Tell whether the call is a product of known shape with a constant matrix."""
    if (
        not is_call(call, "relax.matmul")
        or not isinstance(call.args[1], tvm.ir.GenericConst)
        or not _is_of_integers(call)
    ):
        return False
    shapes = [static_shape(each) for each in call.args]
    return None not in shapes and len(shapes[0] or ()) > 1 and len(shapes[1] or ()) == 2


def _is_exact(weights: np.ndarray[Any, Any]) -> bool:
    """Say whether float32 adds up each output's products exactly: all of them within 2^24."""
    return int(np.abs(weights.astype(np.int64)).sum(axis=(0, 1, 2)).max(initial=0)) * 255 < 1 << 24


def _is_of_integers(call: relax.Call) -> bool:
    data, weights, result = (str(each.ty.dtype) for each in (*call.args, call))
    return data in {"uint8", "int8", "int16"} and (weights, result) == ("int8", "int32")


def _pack(weights: np.ndarray[Any, Any], instruction: DotInstruction) -> np.ndarray[Any, Any]:
    """Return vectors of outputs x rows x columns x uses of it x steps x outputs x inputs, filled up with zeros."""
    rows, columns, inputs, outputs = weights.shape
    lanes, group = instruction.lanes, instruction.group
    filled = np.pad(weights, ((0, 0), (0, 0), (0, -inputs % group), (0, -outputs % lanes)))
    apart = filled.reshape(rows, columns, -1, instruction.steps, group, filled.shape[3] // lanes, lanes)
    return np.ascontiguousarray(apart.transpose(5, 0, 1, 2, 3, 6, 4))


def _write_dense(call: relax.Call, padded: _Padded, packed: relax.Expr, instruction: DotInstruction) -> tirx.PrimFunc:
    data, weights = _placeholder(padded.source), _placeholder(packed)
    read = _widen(_pad(data, padded), instruction)
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)

    def find(place: Sequence[Any], row: Any, column: Any, k: Any) -> Any:
        n, y, x = place
        return read[n, y * down + row * below, x * right + column * beside, k]

    whole = _sum_up(call, weights, find, instruction, _NAME)
    return _finish([data, weights, _take_channels(whole, call)])


def _write_product(
    call: relax.Call, source: relax.Expr, packed: relax.Expr, instruction: DotInstruction
) -> tirx.PrimFunc:
    data, weights = _placeholder(source), _placeholder(packed)
    read = _widen(data, instruction)

    def find(place: Sequence[Any], _row: Any, _column: Any, k: Any) -> Any:
        return read(*place, k)

    whole = _sum_up(call, weights, find, instruction, _PRODUCT_NAME)
    return _finish([data, weights, _take_channels(whole, call)])


def _sum_up(
    call: relax.Call, weights: te.Tensor, find: Callable[..., Any], instruction: DotInstruction, name: str
) -> te.Tensor:
    """Return the sums, filled up to whole vectors; ``find`` gives a number of the data."""
    vectors, rows, columns, uses, steps, lanes, own = (int(each) for each in weights.shape)
    row, column, use, k = _reduce(rows, columns, uses, steps * own)

    def product(*at: Any) -> Any:
        *place, c = at
        number = find(place, row, column, use * steps * own + k)
        weight = weights[c // lanes, row, column, use, k // own, c % lanes, k % own]
        return te.sum(number.astype("int32") * weight.astype("int32"), axis=[row, column, use, k])

    filled = (*call.ty.shape.values[:-1], int64(vectors * lanes))
    return te.compute(filled, product, name=name, attrs={ANNOTATION: instruction.intrinsic})


def _take_channels(whole: te.Tensor, call: relax.Call) -> te.Tensor:
    if int(whole.shape[-1]) == int(call.ty.shape.values[-1]):
        return whole
    return te.compute(call.ty.shape.values, lambda *at: whole[at], name="channels")


def _write_depthwise(call: relax.Call, padded: _Padded, weights_of: relax.Expr) -> tirx.PrimFunc:
    """Add up in float32 or in int32 what is widened to the weights' type.

    Float32 is exact where the weights are small enough.
    """
    data, weights = _placeholder(padded.source), _placeholder(weights_of)
    rows, columns, _ = (int(each) for each in weights_of.ty.shape.values)
    narrow = str(weights_of.ty.dtype)
    wide = "float32" if narrow == "float32" else "int32"
    read = _pad(data, padded)
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)
    row, column = _reduce(rows, columns)

    def product(n: Any, y: Any, x: Any, c: Any) -> Any:
        number = read[n, y * down + row * below, x * right + column * beside, c]
        factors = number.astype(narrow).astype(wide), weights[row, column, c].astype(wide)
        return te.sum(factors[0] * factors[1], axis=[row, column])

    whole = te.compute(call.ty.shape.values, product, name=f"{_NAME}_depthwise")
    return _finish([data, weights, te.compute(call.ty.shape.values, lambda *at: whole[at].astype("int32"))])


def _placeholder(expr: relax.Expr) -> te.Tensor:
    return te.placeholder(expr.ty.shape.values, str(expr.ty.dtype))


def _reduce(*extents: int) -> list[Any]:
    return [te.reduce_axis(wide(0, each), name=f"r{place}") for place, each in enumerate(extents)]


def _pad(data: te.Tensor, padded: _Padded) -> te.Tensor:
    """Return the tensor with its rows and columns; where there are any, in a stage of its own."""
    if not any((*padded.before, *padded.after)):
        return data
    before, after = (wide(0, *sides, 0) for sides in (padded.before, padded.after))
    return topi.nn.pad(data, before, after, tirx.const(padded.value, data.dtype), "pad_temp")


def _widen(data: te.Tensor, instruction: DotInstruction) -> te.Tensor:
    """Return what the instruction takes."""
    if instruction.data == instruction.tensor:
        return data
    return te.compute(data.shape, lambda *at: data[at].astype(instruction.data), name="wide")


def _finish(arguments: list[te.Tensor]) -> tirx.PrimFunc:
    function = te.create_prim_func(arguments)
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)
