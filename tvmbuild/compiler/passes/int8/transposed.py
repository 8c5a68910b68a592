"""Transposed convolutions of quantised tensors: the outputs of each phase of the strides are a convolution's channels.

Output `strides · m + phase` is a sum over the inputs near `m`, by those weights whose place has that phase. All phases
are one convolution, with as many times the channels, whose output is put in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.passes.int8.int_matmul import read_weights
from tvmbuild.compiler.passes.int8.quant_ops import Emit
from tvmbuild.compiler.passes.int8.quant_params import Accumulator, Quantised, QuantizedConstant
from tvmbuild.compiler.passes.split_conv_transpose_by_phase import Direction, Window, describe_direction


def convolve_transposed(
    emit: Emit, call: relax.Call, data: Quantised, weights: QuantizedConstant
) -> Accumulator | None:
    """Return the sum of a transposed NCHW convolution; None for groups, dilation and what `convolve` refuses."""
    values, shape, output = read_weights(weights, outputs=1), static_shape(data.value), static_shape(call)
    attributes = call.attrs
    if values is None or shape is None or output is None or (weights.is_per_axis and weights.axis != 1):
        return None
    if int(attributes.groups) > 1 or any(int(each) != 1 for each in attributes.dilation):
        return None
    if (attributes.data_layout, attributes.kernel_layout) != ("NCHW", "IOHW"):
        return None
    ways = [
        describe_direction(
            Window(values.shape[2 + at], int(attributes.strides[at]), int(attributes.padding[at])),
            shape[2 + at],
            extent,
        )
        for at, extent in enumerate(output[2:])
    ]
    if any(min(each.before, each.after) < 0 for each in ways):
        return None
    kernels = _gather(values, ways)
    width = [0, 0, 0, 0, *(each for way in ways for each in (way.before, way.after))]
    padded = emit(relax.op.nn.pad(data.value, width, pad_value=data.zero)) if any(width) else data.value
    total = emit(relax.op.nn.conv2d(padded, constant(kernels), out_dtype="int32"))
    if data.zero:  # padded with it: each phase has its own weights
        offset = -data.zero * kernels.astype(np.int64).sum(axis=(1, 2, 3))
        total = emit(relax.op.add(total, constant(offset.astype(np.int32).reshape(1, -1, 1, 1))))
    scale = data.scale * weights.scales.astype(np.float32)
    return Accumulator(
        _put_in_order(emit, total, ways, output),
        np.zeros((), np.int64),
        np.asarray(scale.reshape([1, -1, 1, 1] if weights.is_per_axis else ())),
    )


def _gather(values: np.ndarray[Any, Any], ways: list[Direction]) -> np.ndarray[Any, Any]:
    """Return IOHW weights as those of the phases, (outputs, phases of rows, of columns) x inputs x taps."""
    rows, columns = ways
    inputs, outputs, height, width = values.shape
    more = (rows.taps * rows.stride - height, columns.taps * columns.stride - width)
    filled = np.pad(values, ((0, 0), (0, 0), (0, more[0]), (0, more[1])))
    apart = filled.reshape(inputs, outputs, rows.taps, rows.stride, columns.taps, columns.stride)
    flipped = apart[:, :, ::-1, :, ::-1, :].transpose(1, 3, 5, 0, 2, 4)
    return np.ascontiguousarray(flipped.reshape(-1, inputs, rows.taps, columns.taps))


def _put_in_order(emit: Emit, total: relax.Expr, ways: list[Direction], output: tuple[int, ...]) -> relax.Expr:
    rows, columns = ways
    batch, outputs, *_ = output
    down, across = static_shape(total)[2:]  # type: ignore[index]
    apart = emit(relax.op.reshape(total, (batch, outputs, rows.stride, columns.stride, down, across)))
    mixed = emit(relax.op.permute_dims(apart, [0, 1, 4, 2, 5, 3]))
    whole = emit(relax.op.reshape(mixed, (batch, outputs, down * rows.stride, across * columns.stride)))
    begin = [rows.cropped, columns.cropped]
    if static_shape(whole) == output:
        return whole
    end = [start + extent for start, extent in zip(begin, output[2:], strict=True)]
    return emit(relax.op.strided_slice(whole, [2, 3], begin, end))
