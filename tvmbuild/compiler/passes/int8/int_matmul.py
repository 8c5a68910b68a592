"""Convolutions of quantised tensors with constant weights, and products with those or with each other: int32 sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from tvmbuild.compiler.byte_matrices import Bytes, multiply_matrices, suits
from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.passes.int8.quant_ops import Emit
from tvmbuild.compiler.passes.int8.quant_params import (
    MOST,
    UNSIGNED,
    Accumulator,
    ByChannel,
    Quantised,
    QuantizedConstant,
)


def convolve(
    emit: Emit, call: relax.Call, data: Quantised | ByChannel, weights: QuantizedConstant
) -> Accumulator | None:
    """Return the sum of an NCHW convolution; None where its weights do not fit in int8 or have scales along inputs.

    So has data with a scale for each channel, unless each output is of the channel of its number.
    """
    values = read_weights(weights, outputs=0)
    if values is None or (weights.is_per_axis and weights.axis != 0) or str(call.attrs.kernel_layout) != "OIHW":
        return None
    attributes, source = call.attrs, data.value
    if isinstance(data, ByChannel) and not is_depthwise(values.shape, int(attributes.groups)):
        return None
    padding = [int(each) for each in attributes.padding]
    if any(padding) and data.zero:
        top, left, bottom, right = padding
        width = [0, 0, 0, 0, top, bottom, left, right]
        source, padding = emit(relax.op.nn.pad(source, width, pad_value=data.zero)), [0, 0, 0, 0]
    total = relax.op.nn.conv2d(
        source,
        constant(values),
        strides=list(attributes.strides),
        padding=padding,
        dilation=list(attributes.dilation),
        groups=int(attributes.groups),
        out_dtype="int32",
    )
    over_channels = [1, -1, 1, 1]
    offset = -data.zero * values.astype(np.int64).sum(axis=(1, 2, 3)).reshape(over_channels)
    scale = np.asarray(
        data.scale * weights.scales.astype(np.float32).reshape(over_channels if weights.is_per_axis else ())
    )
    return Accumulator(emit(total), offset, scale)


def is_depthwise(weights: Sequence[int], groups: int) -> bool:
    """Say of a convolution's weights, OIHW, whether each output is of one channel, and of each channel."""
    return groups > 1 and weights[1] == 1 and weights[0] == groups


def multiply(emit: Emit, data: Quantised, weights: QuantizedConstant) -> Accumulator | None:
    """Return the sum of a product with a matrix; None for weights beyond int8 and for scales along rows."""
    values = read_weights(weights, outputs=-1)
    if values is None or values.ndim != 2 or (weights.is_per_axis and weights.axis != 1):
        return None
    total = relax.op.matmul(data.value, constant(values), out_dtype="int32")
    offset = -data.zero * values.astype(np.int64).sum(axis=0)
    scale = data.scale * weights.scales.astype(np.float32)
    return Accumulator(emit(total), offset, scale.reshape(-1 if weights.is_per_axis else ()))


def multiply_both(emit: Emit, left: Quantised, right: Quantised) -> Accumulator | None:
    """Return the sum of a product of two activations; None for vectors and for rows whose sums are too large."""
    if not suits(left.value, right.value):
        return None
    total = multiply_matrices(emit, Bytes(left.value, left.zero), Bytes(right.value, right.zero))
    return Accumulator(total, np.zeros((), np.int64), np.asarray(left.scale * right.scale))


def read_weights(weights: QuantizedConstant, outputs: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]] | None:
    """Return the weights without their zeros; None where they or what an output adds up are too large."""
    values = weights.differences
    if values.ndim < 2 or values.size == 0 or values.min() < -UNSIGNED or values.max() >= UNSIGNED:
        return None
    each_output = np.moveaxis(np.abs(values), outputs, 0).reshape(values.shape[outputs], -1)
    largest = int(each_output.sum(axis=1).max()) * np.iinfo(np.uint8).max
    return np.ascontiguousarray(values.astype(np.int8)) if largest < MOST else None
