"""One-dimensional convolutions and pooling as two-dimensional ones of pictures with one row.

Two-dimensional convolutions run in NHWC, in register tiles, with packed weights. TVM cannot convert the layout of
one-dimensional operators, and in NCW it sums up each output element by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.op_sets import ELEMENTWISE
from tvmbuild.compiler.ir.rewrite import rewrite_main
from tvmbuild.compiler.remarks import is_missed

_RANK = 3
_PASSED = ELEMENTWISE | {"relax.clip"}
"""Operators that are also computed on pictures of one row, to stay fused with the convolution before them."""
_ROUNDED = frozenset({"relax.quantize", "relax.dequantize"})
"""Quantisations that are also computed on pictures of one row: a reshape between a convolution and its quantisation
would keep LowerQdqToInt8 from rounding the integer sums directly."""


def widen_conv1d(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Rewrite one-dimensional convolutions and pooling of known shapes as two-dimensional ones.

    The reshapes on either side are views, which take no time.
    """
    return rewrite_main(mod, _WidenConv1d(mod)) if any(operator_calls(mod, name) for name in _RULES) else mod


@mutator
class _WidenConv1d(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not isinstance(call.op, tvm.ir.Op):
            return call
        rule = _RULES.get(call.op.name)
        if rule is not None and not is_missed(_list_obstacles(call)):
            return self._drop_row(rule(call, [self._add_row(each) for each in call.args]))
        if rule is not None or len(static_shape(call) or ()) != _RANK:
            return call
        if call.op.name in _PASSED and any(self._picture(each) is not None for each in call.args):
            return self._drop_row(relax.Call(call.op, [self._add_row(each) for each in call.args], call.attrs))
        if call.op.name in _ROUNDED and int(call.attrs.axis) in {0, 1} and self._picture(call.args[0]) is not None:
            return self._drop_row(relax.Call(call.op, [self._add_row(call.args[0]), *call.args[1:]], call.attrs))
        return call

    def _drop_row(self, made: relax.Call) -> relax.Expr:
        picture = self.builder_.emit(made)
        first, second, _, last = picture.ty.shape.values
        return relax.op.reshape(picture, (first, second, last))

    def _picture(self, expr: relax.Expr) -> relax.Expr | None:
        """Return the picture of one row that ``_drop_row`` reshaped to ``expr``, or None for other expressions."""
        value, shape = resolve(self.lookup_binding, expr), static_shape(expr)
        if not is_call(value, "relax.reshape") or shape is None or len(shape) != _RANK:
            return None
        return value.args[0] if static_shape(value.args[0]) == (*shape[:2], 1, shape[2]) else None

    def _add_row(self, expr: relax.Expr) -> relax.Expr:
        picture, shape = self._picture(expr), static_shape(expr) or ()
        if picture is not None:
            return picture
        if len(shape) < 2:  # a number, or a vector along the last axis
            return expr
        widened = (*shape[:-1], 1, shape[-1])
        value = resolve(self.lookup_binding, expr)
        if isinstance(value, tvm.ir.GenericConst):
            return constant(value.value.numpy().reshape(widened))
        if is_call(value, "relax.dequantize") and int(value.attrs.axis) in {0, 1}:
            return self.builder_.emit(
                relax.Call(value.op, [self._add_row(value.args[0]), *value.args[1:]], value.attrs)
            )
        return self.builder_.emit(relax.op.reshape(expr, widened))


def _list_obstacles(call: relax.Call) -> Iterator[str]:
    if not all(static_shape(each) for each in (*call.args, call)):
        yield "its shape is not known"
    if _layout(call) != "NCW":
        yield "its layout is not NCW"


def _layout(call: relax.Call) -> str:
    attrs = call.attrs
    layout = str(getattr(attrs, "data_layout", "") or attrs.layout)
    is_usual = str(getattr(attrs, "kernel_layout", "")) in {"", "OIW", "IOW"} and attrs.out_layout in {"", layout}
    return layout if is_usual else ""


def _convolve(call: relax.Call, arguments: list[relax.Expr]) -> relax.Expr:
    return relax.op.nn.conv2d(
        *arguments, **_window(call), groups=int(call.attrs.groups), out_dtype=call.attrs.out_dtype
    )


def _convolve_transposed(call: relax.Call, arguments: list[relax.Expr]) -> relax.Expr:
    return relax.op.nn.conv2d_transpose(
        *arguments,
        **_window(call),
        output_padding=[0, *map(int, call.attrs.output_padding)],
        groups=int(call.attrs.groups),
        out_dtype=call.attrs.out_dtype,
    )


def _pool(function: Callable[..., relax.Expr]) -> Callable[[relax.Call, list[relax.Expr]], relax.Expr]:
    def pool(call: relax.Call, arguments: list[relax.Expr]) -> relax.Expr:
        size = [1, *map(int, call.attrs.pool_size)]
        counted = bool(call.attrs.count_include_pad)
        rounding = {"ceil_mode": bool(call.attrs.ceil_mode), "count_include_pad": counted}
        return function(*arguments, size, **_window(call), **rounding)

    return pool


def _pool_adaptively(call: relax.Call, arguments: list[relax.Expr]) -> relax.Expr:
    return relax.op.nn.adaptive_avg_pool2d(*arguments, [1, int(call.ty.shape.values[2])])


def _window(call: relax.Call) -> dict[str, Any]:
    left, right = (int(each) for each in call.attrs.padding)
    return {
        "strides": [1, *map(int, call.attrs.strides)],
        "padding": [0, left, 0, right],
        "dilation": [1, *map(int, call.attrs.dilation)],
    }


_RULES: dict[str, Callable[[relax.Call, list[relax.Expr]], relax.Expr]] = {
    "relax.nn.conv1d": _convolve,
    "relax.nn.conv1d_transpose": _convolve_transposed,
    "relax.nn.max_pool1d": _pool(relax.op.nn.max_pool2d),
    "relax.nn.avg_pool1d": _pool(relax.op.nn.avg_pool2d),
    "relax.nn.adaptive_avg_pool1d": _pool_adaptively,
}
