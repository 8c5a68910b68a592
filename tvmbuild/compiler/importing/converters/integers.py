"""Converters of ConvInteger and MatMulInteger: sums of integers, exact in 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from tvmbuild.compiler.byte_matrices import Bytes, multiply_matrices, suits
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.converters.quantization import scalar
from tvmbuild.compiler.ir.expressions import constant, shift, static_shape

_SIGNED, _MOST = 128, 127
"""The offset from int8 to uint8, and the largest int8."""
Integers = np.ndarray[Any, np.dtype[np.int64]]


def convert_conv_integer(call: NodeCall) -> relax.Expr:
    """Convert ConvInteger: convolve data and weights minus their zero points, so that the padding is zero.

    TVM has no converter for this operator.
    """
    of_bytes = _convolve_bytes(call)
    if of_bytes is not None:
        return of_bytes
    kernels = [-1] + [1] * (len(call.shape) - 1)
    operands = [_subtract(call, 0, []), _subtract(call, 1, kernels)]
    # As in the convolution of floats, TVM fills in a missing kernel_shape and resolves auto_pad.
    return onnx_frontend.Conv._impl_v11(call.builder, [*operands, None], call.attributes, {})  # noqa: SLF001


def convert_matmul_integer(call: NodeCall) -> relax.Expr:
    """Convert MatMulInteger: subtract the zero points and multiply; TVM makes a vector with a zero point a matrix."""
    weights = _read_weights(call, [1, -1])
    if weights is not None and weights.ndim == 2:
        return _multiply_bytes(call, weights)
    return _multiply_both(call) if suits(*call.inputs[:2]) else _multiply_wide(call)


def _multiply_both(call: NodeCall) -> relax.Expr:
    """Multiply two byte matrices without widening them; neither matrix needs to be constant."""
    left, right = (_read_bytes(call, index, form) for index, form in enumerate(([-1, 1], [1, -1])))
    return multiply_matrices(call.builder.emit, left, right)


def _read_bytes(call: NodeCall, index: int, form: list[int]) -> Bytes:
    given = call.inputs[index + 2]
    zero = None if given is None else _widen_zero(call, given, form)
    known = 0 if zero is None else _read_number(zero)
    return Bytes(call.inputs[index], zero if known is None else known)


def _multiply_wide(call: NodeCall) -> relax.Expr:
    return relax.op.matmul(_subtract(call, 0, [-1, 1]), _subtract(call, 1, [1, -1]), out_dtype="int32")


def _multiply_bytes(call: NodeCall, weights: Integers) -> relax.Expr:
    """Multiply the data, without widening them, by int8 weights, and subtract the effect of the data's zero point."""
    rest = _rest(weights)
    if rest is None:
        return _multiply_wide(call)
    data, zero = _as_unsigned(call, [-1, 1])
    total = call.emit(relax.op.matmul, data, constant((weights - rest).astype(np.int8)), out_dtype="int32")
    if rest:
        rows = call.emit(relax.op.sum, call.emit(relax.op.astype, data, "int32"), axis=-1, keepdims=data.ty.ndim > 1)
        total = call.emit(relax.op.add, total, call.emit(relax.op.multiply, rows, relax.const(rest, "int32")))
    return _take_off(call, total, zero, weights.sum(axis=0))


def _convolve_bytes(call: NodeCall) -> relax.Expr | None:
    """Convolve the data, without widening them, with int8 weights, or return None if this is not possible.

    The result is None if the weights do not fit int8, for 1-D and 3-D convolutions, and for SAME padding.
    """
    weights = _read_weights(call, [-1, 1, 1, 1])
    automatic = call.text("auto_pad", "NOTSET")
    if weights is None or weights.ndim != 4 or automatic not in {"NOTSET", "VALID"}:
        return None
    rest, groups = _rest(weights), int(call.attributes.get("group", 1))
    if rest is None or (rest and groups > 1):
        return None
    data, zero = _as_unsigned(call, [])
    pads = list(call.attributes.get("pads", [0] * 4)) if automatic == "NOTSET" else [0] * 4
    if any(pads):
        data = _pad(call, data, zero, pads)
    form = {
        "strides": list(call.attributes.get("strides", [1, 1])),
        "dilation": list(call.attributes.get("dilations", [1, 1])),
        "out_dtype": "int32",
    }
    kernels = constant((weights - rest).astype(np.int8))
    total = call.emit(relax.op.nn.conv2d, data, kernels, groups=groups, **form)
    if rest:
        channels = call.emit(relax.op.sum, call.emit(relax.op.astype, data, "int32"), axis=1, keepdims=True)
        window = constant(np.full((1, 1, *weights.shape[2:]), rest, np.int32))
        total = call.emit(relax.op.add, total, call.emit(relax.op.nn.conv2d, channels, window, **form))
    return _take_off(call, total, zero, weights.sum(axis=(1, 2, 3)).reshape(1, -1, 1, 1))


def _pad(call: NodeCall, data: relax.Expr, zero: relax.Expr | None, pads: list[int]) -> relax.Expr:
    """Pad the data with the zero point; a zero point that is known only at run time is added to a padding of zeros."""
    top, left, bottom, right = pads
    width = [0, 0, 0, 0, top, bottom, left, right]
    known = None if zero is None else _read_number(zero)
    padded = call.emit(relax.op.nn.pad, data, width, pad_value=known or 0)
    if zero is None or known is not None:
        return padded
    rows, columns = call.shape[2:]
    outside = np.ones((1, 1, rows + top + bottom, columns + left + right), np.uint8)
    outside[:, :, top : top + rows, left : left + columns] = 0
    added = call.emit(relax.op.multiply, constant(outside), call.emit(relax.op.astype, zero, "uint8"))
    return call.emit(relax.op.add, padded, added)


def _take_off(call: NodeCall, total: relax.Expr, zero: relax.Expr | None, sums: Integers) -> relax.Expr:
    """Subtract the products of the zero point and the weights from the total."""
    if zero is None:
        return total
    known = _read_number(zero)
    if known is not None:
        return relax.op.add(total, constant((-sums * known).astype(np.int32)))
    return relax.op.subtract(total, call.emit(relax.op.multiply, constant(sums.astype(np.int32)), zero))


def _read_number(expr: relax.Expr) -> int | None:
    """Return the value of a scalar constant, or None for other expressions."""
    is_known = isinstance(expr, tvm.ir.GenericConst) and expr.value.numpy().ndim == 0
    return int(expr.value.numpy()) if is_known else None


def _as_unsigned(call: NodeCall, form: list[int]) -> tuple[relax.Expr, relax.Expr | None]:
    """Return the data as uint8, and their zero point as int32, or None if it is 0.

    A vector of zero points gets the shape ``form``.
    """
    given = call.inputs[2]
    zero = None if given is None else _widen_zero(call, given, form)
    if zero is not None and _read_number(zero) == 0:
        zero = None
    if call.dtype == "uint8":
        return call.data, zero
    more = relax.const(_SIGNED, "int32")
    if zero is None:
        zero = more
    elif isinstance(zero, tvm.ir.GenericConst):
        zero = constant(zero.value.numpy() + np.int32(_SIGNED))
    else:
        zero = call.emit(relax.op.add, zero, more)
    return shift(call.builder.emit, call.data, _SIGNED, "uint8"), zero


def _widen_zero(call: NodeCall, given: relax.Expr, form: list[int]) -> relax.Expr:
    zero = scalar(call, given)
    if isinstance(zero, tvm.ir.GenericConst):
        values = zero.value.numpy().astype(np.int32)
        return constant(values.reshape(form) if values.ndim == 1 and form else values)
    wide = call.emit(relax.op.astype, zero, "int32")
    return call.emit(relax.op.reshape, wide, form) if len(static_shape(zero) or ()) == 1 and form else wide


def _read_weights(call: NodeCall, form: list[int]) -> Integers | None:
    """Return constant weights minus their zero points, or None if they are not constant."""
    given = call.inputs[3]
    weights = call.values(1)
    zeros = np.int64(0) if given is None else call.values(3)
    if weights is None or zeros is None or call.dtype not in {"uint8", "int8"} or not weights.size:
        return None
    wide = np.asarray(zeros, np.int64)
    if wide.ndim == 1:
        wide = wide.reshape(form if wide.size > 1 else ())
    return np.asarray(weights.astype(np.int64) - wide)


def _fits(weights: Integers) -> bool:
    return bool(weights.min() >= -_SIGNED and weights.max() <= _MOST)


def _rest(weights: Integers) -> int | None:
    """Return the number whose subtraction makes all weights fit int8, or None if no number does.

    The number can differ from 0 for uint8 weights with a zero point other than 128. Callers then add the sum of the
    data times this number to the product.
    """
    rest = 0 if _fits(weights) else int(weights.max()) - _MOST
    return rest if _fits(weights - rest) else None


def _subtract(call: NodeCall, index: int, form: list[int]) -> relax.Expr:
    """Return the operand at ``index`` minus its zero point, as int32.

    A vector of zero points gets the shape ``form``.
    """
    wide = call.emit(relax.op.astype, call.inputs[index], "int32")
    given = call.inputs[index + 2]
    if given is None:
        return wide
    return call.emit(relax.op.subtract, wide, _widen_zero(call, given, form))
