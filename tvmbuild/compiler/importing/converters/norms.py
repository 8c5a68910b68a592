"""Normalisations of images; TVM computes a variance as the difference of two large numbers, and the means twice."""

from __future__ import annotations

from tvm import relax

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import static_shape

_EPSILON = 1e-5


def convert_group_normalization(call: NodeCall) -> relax.Expr:
    """Convert GroupNormalization on [N, groups, channels per group, …]; before opset 21 a group has one scale."""
    groups, (batch, channels, *pixels) = int(call.attributes["num_groups"]), call.shape
    return _normalise(call, (batch, groups, channels // groups, *pixels), grouped=True)


def convert_layer_normalization(call: NodeCall) -> relax.Expr:
    """Convert LayerNormalization; scales and biases that are broadcast, for example scalars, are applied afterwards."""
    shape = call.shape
    normed = shape[int(call.attributes["axis"]) :]
    given = [each for each in call.inputs[1:3] if each is not None]
    if all(static_shape(each) == normed for each in given):
        return call.by_tvm()
    dtype = call.inputs[1].ty.dtype
    ones, zeros = (call.emit(fill, normed, dtype) for fill in (relax.op.ones, relax.op.zeros))
    axes = [*range(len(shape) - len(normed), len(shape))]
    result = call.emit(relax.op.nn.layer_norm, call.data, ones, zeros, axes, call.float("epsilon", _EPSILON))
    for operator, parameter in zip((relax.op.multiply, relax.op.add), given, strict=False):
        result = call.emit(operator, result, parameter)
    return result


def convert_instance_normalization(call: NodeCall) -> relax.Expr:
    """Convert InstanceNormalization, which normalises each channel of each image."""
    return _normalise(call, call.shape, grouped=False)


def _normalise(call: NodeCall, shape: tuple[int, ...], *, grouped: bool) -> relax.Expr:
    wide = call.dtype if call.dtype == "float64" else "float32"
    axes = list(range(2, len(shape)))
    data = _cast(call, call.data, wide)
    if grouped:
        data = call.emit(relax.op.reshape, data, shape)
    centred = call.emit(relax.op.subtract, data, call.emit(relax.op.mean, data, axes, True))
    variance = call.emit(relax.op.mean, call.emit(relax.op.multiply, centred, centred), axes, True)
    epsilon = call.number(call.float("epsilon", _EPSILON), wide)
    deviation = call.emit(relax.op.sqrt, call.emit(relax.op.add, variance, epsilon))
    result = call.emit(relax.op.divide, centred, deviation)
    for operator, parameter in ((relax.op.multiply, call.inputs[1]), (relax.op.add, call.inputs[2])):
        of_channels = _cast(call, call.emit(relax.op.reshape, parameter, _shape_like(parameter, shape, grouped)), wide)
        result = call.emit(operator, result, of_channels)
    if grouped:
        result = call.emit(relax.op.reshape, result, call.shape)
    return _cast(call, result, call.dtype)


def _shape_like(parameter: relax.Expr, shape: tuple[int, ...], grouped: bool) -> tuple[int, ...]:
    """Return the shape in which a parameter with one value per group or channel broadcasts to ``shape``."""
    if not grouped:
        return (1, shape[1], *(1 for _ in shape[2:]))
    given = static_shape(parameter) or ()
    of_group = shape[2] if given == (shape[1] * shape[2],) else 1
    return (1, shape[1], of_group, *(1 for _ in shape[3:]))


def _cast(call: NodeCall, data: relax.Expr, dtype: str) -> relax.Expr:
    return data if str(data.ty.dtype) == dtype else call.emit(relax.op.astype, data, dtype)
