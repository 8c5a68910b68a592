"""Converters of QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear to Relax's quantize and dequantize.

The converters of TVM reject int32, divide float16 in float16 in every opset, and have no scale for data of zeros only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax, te, tirx

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.errors import TvmbuildError

_MOST = 255.0
_BYTES = frozenset({"int8", "uint8"})
_OWN_PRECISION = 23
"""The first opset in which QuantizeLinear divides in the scale's type."""


def convert_quantize(call: NodeCall) -> relax.Expr:
    """Convert QuantizeLinear: divide by the scale, round half to even, add the zero point, and clip."""
    _refuse_blocks(call)
    zero = call.inputs[2]
    kind = str(zero.ty.dtype) if zero is not None else _named_type(call, "uint8")
    data, scale = (_cast(call, each, _find_precision(call, kind)) for each in call.inputs[:2])
    return relax.op.quantize(data, scalar(call, scale), _zero(call, kind), axis=_axis(call), out_dtype=kind)


def convert_dequantize(call: NodeCall) -> relax.Expr:
    """Convert DequantizeLinear: subtract the zero point as integers, and multiply by the scale."""
    _refuse_blocks(call)
    scale = call.inputs[1]
    kind = _named_type(call, str(scale.ty.dtype))
    zero = _zero(call, call.dtype)
    return relax.op.dequantize(call.data, scalar(call, scale), zero, axis=_axis(call), out_dtype=kind)


def convert_dynamic_quantize(call: NodeCall) -> relax.Expr:
    """Convert DynamicQuantizeLinear: quantise the range of the data, extended to zero, to uint8.

    If all data are zero, the scale is one, as in ONNX Runtime.
    """
    zero, most = call.number(0.0), call.number(_MOST)
    high = call.emit(relax.op.maximum, call.emit(relax.op.max, call.data), zero)
    low = call.emit(relax.op.minimum, call.emit(relax.op.min, call.data), zero)
    scale = call.builder.emit_te(_find_scale, low, high, primfunc_name_hint="find_scale")
    first = call.emit(relax.op.subtract, zero, call.emit(relax.op.divide, low, scale))
    clipped = call.emit(relax.op.minimum, call.emit(relax.op.maximum, first, zero), most)
    zero_point = call.emit(relax.op.astype, call.emit(relax.op.round, clipped), "uint8")
    values = call.emit(relax.op.quantize, call.data, scale, zero_point, axis=0, out_dtype="uint8")
    return relax.Tuple([values, scale, zero_point])


def _find_scale(low: te.Tensor, high: te.Tensor) -> te.Tensor:
    """Return the scale, which is the range divided by 255, as a TE computation.

    Relax would turn the division by a constant into a product, which differs in the last bit.
    """

    def element() -> Any:
        width = high() - low()
        return tirx.if_then_else(width == 0, tirx.const(1.0, low.dtype), width / tirx.const(_MOST, low.dtype))

    return te.compute((), element, name="scale")


def scalar(call: NodeCall, parameter: relax.Expr) -> relax.Expr:
    """Return a parameter of one element as a scalar, and other parameters unchanged."""
    shape = static_shape(parameter)
    if not shape or np.prod(shape) != 1:
        return parameter
    if isinstance(parameter, tvm.ir.GenericConst):
        return constant(parameter.value.numpy().reshape(()))
    return call.emit(relax.op.reshape, parameter, [])


def _refuse_blocks(call: NodeCall) -> None:
    """Raise TvmbuildError for scales of blocks; they are left only if the constant is too large to be folded."""
    if call.attributes.get("block_size", 0):
        raise TvmbuildError("its scales are blockwise", "quantise the model with one scale for each tensor or channel")


def _zero(call: NodeCall, kind: str) -> relax.Expr:
    given = call.inputs[2]
    return relax.const(np.array(0, kind), kind) if given is None else scalar(call, given)


def _find_precision(call: NodeCall, kind: str) -> str:
    """Return the type of the division in QuantizeLinear: float32 or the scale's type.

    ONNX since opset 23, and ONNX Runtime, divide in the scale's type for 8-bit results without the attribute
    `precision`.
    """
    has_few = kind in _BYTES  # float16 represents all integers of these types
    named = call.attributes.get("precision", 0)
    return str(call.inputs[1].ty.dtype) if call.opset >= _OWN_PRECISION and has_few and not named else "float32"


def _cast(call: NodeCall, value: relax.Expr, kind: str) -> relax.Expr:
    if str(value.ty.dtype) == kind:
        return value
    if isinstance(value, tvm.ir.GenericConst):
        array: np.ndarray[Any, Any] = value.value.numpy()
        return constant(array.astype(kind))
    return call.emit(relax.op.astype, value, kind)


def _named_type(call: NodeCall, default: str) -> str:
    named = call.attributes.get("output_dtype", 0)
    return str(onnx.helper.tensor_dtype_to_np_dtype(named)) if named else default


def _axis(call: NodeCall) -> int:
    """Return the axis of a vector of scales; for a scalar scale, return any valid axis."""
    rank = int(call.data.ty.ndim)
    axis = int(call.attributes.get("axis", 1))
    return axis % rank if -rank <= axis < rank else 0
