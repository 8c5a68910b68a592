"""What TVM 0.27 does badly or not at all, put right in one place. Each has its reason and its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

Converter: TypeAlias = Callable[..., relax.Expr]
Bound: TypeAlias = relax.Expr | float | None


@contextmanager
def layout_friendly_importer() -> Iterator[None]:
    """Within the context, the importer emits clipping as minimum(maximum(x, low), high) with scalar constants.

    Reason: it emits Clip (ReLU6) as ``call_tir``, HardSigmoid and HardSwish with ``relax.clip``, LeakyRelu with
    ``relax.nn.leakyrelu``; none has layout inference, so ConvertLayout puts a transpose on each side of every one of
    them, and Clip is not fused into the convolution before it. Max and Min are emitted as broadcast, stack and reduce,
    which costs three passes over memory.
    """
    replaced: list[tuple[type, dict[str, object]]] = []
    try:
        for owner, converters in _CONVERTERS:
            replaced.append((owner, {name: vars(owner).get(name) for name in converters}))
            for name, converter in converters.items():
                setattr(owner, name, classmethod(converter))
        yield
    finally:
        for owner, saved in reversed(replaced):
            for name, original in saved.items():
                if original is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)


def drop_empty_resize_inputs(op_name: str, inputs: list[relax.Expr | None]) -> None:
    """Replace empty constants among the inputs of a Resize by None, in place.

    Reason: ONNX up to opset 12 has no other way to leave out `scales` than an empty tensor, and the importer takes one
    for a value ("Only one of scales and sizes can be provided").
    """
    if op_name == "Resize":
        for index, value in enumerate(inputs):
            if index > 0 and isinstance(value, tvm.ir.GenericConst) and value.value.numpy().size == 0:
                inputs[index] = None


def emit_clip(block_builder: relax.BlockBuilder, data: relax.Expr, low: Bound, high: Bound) -> relax.Expr:
    """Emit the clipping of ``data``; a bound is a number, an expression or None; NaN and ±inf bound nothing."""
    dtype = str(data.ty.dtype)
    for bound, operator in ((low, relax.op.maximum), (high, relax.op.minimum)):
        scalar = _as_bound(bound, dtype)
        if scalar is not None:
            data = block_builder.emit(operator(data, scalar))
    return data


def _as_bound(bound: Bound, dtype: str) -> relax.Expr | None:
    if bound is None:
        return None
    if isinstance(bound, tvm.ir.GenericConst):
        bound = bound.value.numpy().reshape(()).item()
    if not isinstance(bound, (int, float)):
        return bound
    if not math.isfinite(bound):
        return None
    return relax.const(np.array(bound, dtype=dtype), dtype)


def _clip_attributes(
    _cls: type, builder: relax.BlockBuilder, inputs: list[relax.Expr], attributes: dict[str, float], _params: object
) -> relax.Expr:
    return emit_clip(builder, inputs[0], attributes.get("min"), attributes.get("max"))


def _clip_inputs(
    _cls: type, builder: relax.BlockBuilder, inputs: list[relax.Expr], _attributes: dict[str, float], _params: object
) -> relax.Expr:
    return emit_clip(builder, inputs[0], inputs[1], inputs[2])


def _hard_sigmoid(
    _cls: type, builder: relax.BlockBuilder, inputs: list[relax.Expr], attributes: dict[str, float], _params: object
) -> relax.Expr:
    data = inputs[0]
    dtype = str(data.ty.dtype)
    alpha = relax.const(float(attributes.get("alpha", 0.2)), dtype)
    beta = relax.const(float(attributes.get("beta", 0.5)), dtype)
    line = builder.emit(relax.op.add(builder.emit(relax.op.multiply(data, alpha)), beta))
    return emit_clip(builder, line, 0.0, 1.0)


def _hard_swish(
    _cls: type, builder: relax.BlockBuilder, inputs: list[relax.Expr], _attributes: dict[str, float], _params: object
) -> relax.Expr:
    data = inputs[0]
    dtype = str(data.ty.dtype)
    clipped = emit_clip(builder, builder.emit(relax.op.add(data, relax.const(3.0, dtype))), 0.0, 6.0)
    return relax.op.multiply(data, builder.emit(relax.op.divide(clipped, relax.const(6.0, dtype))))


_upstream_leaky_relu = vars(onnx_frontend.LeakyRelu)["_impl_v1"].__func__


def _leaky_relu(
    cls: type, builder: relax.BlockBuilder, inputs: list[relax.Expr], attributes: dict[str, float], params: object
) -> relax.Expr:
    """Emit LeakyRelu as maximum(x, alpha * x): ``relax.nn.leakyrelu`` has no layout inference."""
    data, alpha = inputs[0], float(attributes.get("alpha", 0.01))
    if not 0 < alpha <= 1:
        return _upstream_leaky_relu(cls, builder, inputs, attributes, params)
    return relax.op.maximum(data, builder.emit(relax.op.multiply(data, relax.const(alpha, str(data.ty.dtype)))))


def _fold_pairwise(operator: Converter) -> Converter:
    def convert(
        _cls: type,
        builder: relax.BlockBuilder,
        inputs: list[relax.Expr],
        _attributes: dict[str, float],
        _params: object,
    ) -> relax.Expr:
        result = inputs[0]
        for other in inputs[1:]:
            result = builder.emit(operator(result, other))
        return result

    return convert


_upstream_gather = vars(onnx_frontend.Gather)["_impl_v13"].__func__


def _gather_one(
    cls: type,
    builder: relax.BlockBuilder,
    inputs: list[relax.Expr],
    attributes: dict[str, int],
    params: object,
) -> relax.Expr:
    """Emit a Gather of one known index as a slice.

    Reason: as ``take`` the index is an argument of the Task, which is then measured with random indices: it reads out
    of bounds and kills the runner, so that the Task never gets a record. A slice also fuses into what comes after.
    """
    data, index = inputs[0], inputs[1]
    axis = attributes.get("axis", 0)
    extent = _static_extent(data, axis)
    if extent is None or not isinstance(index, tvm.ir.GenericConst) or index.value.numpy().size != 1:
        return _upstream_gather(cls, builder, inputs, attributes, params)
    values = index.value.numpy()
    if isinstance(data, tvm.ir.GenericConst) or values.ndim > 1:
        return _upstream_gather(cls, builder, inputs, attributes, params)
    start = int(values.item()) % extent
    part = data
    if extent > 1:
        part = builder.emit(relax.op.strided_slice(data, axes=[axis], begin=[start], end=[start + 1]))
    return relax.op.squeeze(part, [axis]) if values.ndim == 0 else part


def _static_extent(data: relax.Expr, axis: int) -> int | None:
    shape = getattr(data.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not isinstance(data.ty, relax.TensorType):
        return None
    extent = shape.values[axis]
    return int(extent) if isinstance(extent, tvm.tirx.IntImm) else None


_CONVERTERS: tuple[tuple[type, dict[str, Converter]], ...] = (
    (onnx_frontend.Clip, {"_impl_v1": _clip_attributes, "_impl_v11": _clip_inputs, "_impl_v13": _clip_inputs}),
    (onnx_frontend.Gather, {"_impl_v13": _gather_one}),
    (onnx_frontend.HardSigmoid, {"_impl_v1": _hard_sigmoid}),
    (onnx_frontend.HardSwish, {"_impl_v14": _hard_swish}),
    (onnx_frontend.LeakyRelu, {"_impl_v1": _leaky_relu}),
    (onnx_frontend.Max, {"_impl_v1": _fold_pairwise(relax.op.maximum)}),
    (onnx_frontend.Min, {"_impl_v1": _fold_pairwise(relax.op.minimum)}),
)
