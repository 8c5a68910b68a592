"""Rules for int32 accumulators: sums of products, and the operators between a sum and the next quantisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.byte_matrices import Bytes, multiply_matrices, suits
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.obstacles import list_layouts
from tvmbuild.compiler.passes.int8.ledger import Ledger, Rule
from tvmbuild.compiler.passes.int8.quant_params import (
    MAX_OF_BIAS,
    MOST,
    UNSIGNED,
    Accumulator,
    ByChannel,
    Emit,
    Quantised,
    QuantizedConstant,
    sum_up,
)
from tvmbuild.compiler.passes.int8.rounding import sign
from tvmbuild.compiler.passes.split_conv_transpose_by_phase import Direction, Window, describe_direction
from tvmbuild.compiler.remarks import is_missed, missed


def _convolve(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    def compute(data: Quantised | ByChannel, weights: QuantizedConstant) -> Accumulator | None:
        groups = int(call.attrs.groups)
        is_dense = not is_depthwise(weights.values.shape, groups)
        if ledger.is_plain and is_dense and groups > 1:
            return missed("the target has no dot instruction, and tiles for groups of floats")
        if ledger.wants_signed and is_dense and isinstance(data, Quantised):
            data = sign(ledger, data)
        return convolve(ledger.emit, call, data, weights)

    return _product(ledger, call, compute)


def _convolve_transposed(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    def compute(data: Quantised | ByChannel, weights: QuantizedConstant) -> Accumulator | None:
        if ledger.is_plain:
            return missed("the target has no dot instruction, and tiles for transposed convolutions of floats")
        if isinstance(data, ByChannel):
            return missed("its data have a scale for each channel")
        return convolve_transposed(ledger.emit, call, sign(ledger, data) if ledger.wants_signed else data, weights)

    return _product(ledger, call, compute)


def _multiply(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    left, right = (ledger.find(each) for each in call.args)
    if isinstance(left, Quantised) and isinstance(right, Quantised):
        if ledger.is_plain:
            return missed("the target has no dot instruction, and tiles for products of floats")
        first = sign(ledger, left) if ledger.wants_signed else left
        return _keep(ledger, multiply_both(ledger.emit, first, sign(ledger, right)))

    def compute(data: Quantised | ByChannel, weights: QuantizedConstant) -> Accumulator | None:
        if isinstance(data, ByChannel):
            return missed("its data have a scale for each channel")
        return multiply(ledger.emit, sign(ledger, data) if ledger.wants_signed else data, weights)

    return _product(ledger, call, compute)


def _product(
    ledger: Ledger, call: relax.Call, compute: Callable[[Quantised | ByChannel, QuantizedConstant], Accumulator | None]
) -> relax.Expr | None:
    data, weights = (ledger.find(each) for each in call.args)
    is_rounded, is_known = isinstance(data, Quantised | ByChannel), isinstance(weights, QuantizedConstant)
    if is_known and not is_rounded:
        return missed("its weights are quantised and its data are not")
    if is_rounded and not is_known:
        return missed("its data are quantised and its weights are not a quantised constant")
    if not isinstance(data, Quantised | ByChannel) or not isinstance(weights, QuantizedConstant):
        return None
    return _keep(ledger, compute(data, weights))


def _keep(ledger: Ledger, made: Accumulator | None) -> relax.Expr | None:
    return None if made is None else ledger.track(sum_up(ledger.emit, made), made)


def _add(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    """Convert an added constant, a bias, to integer steps of the accumulator."""
    for one, other in (call.args, reversed(call.args)):
        found, bias = ledger.find(one), ledger.read_number(other)
        if isinstance(found, Accumulator) and bias is not None and found.is_bounded:
            return missed("what is added to its sums comes after an activation")
        if isinstance(found, Accumulator) and bias is not None:
            return _add_bias(ledger, call, found, bias)
    return None


def _add_bias(ledger: Ledger, call: relax.Call, found: Accumulator, bias: np.ndarray[Any, Any]) -> relax.Expr | None:
    if static_shape(call) != static_shape(found.value):
        return missed("its sums spread over what is added")
    shape = np.broadcast_shapes(found.offset.shape, found.scale.shape)
    own = _drop_leading_ones(bias, len(shape))
    with np.errstate(all="ignore"):  # weights that are all zero may have any scale
        steps = np.rint(own.astype(np.float64) / found.scale)
    if steps.size > max(int(np.prod(shape)), 1) or not np.all(np.isfinite(own)):
        return missed("what is added to its sums is not finite, or not one number for each channel")
    offset = found.offset + steps
    if not np.all(np.abs(steps) < MAX_OF_BIAS) or not np.all(np.abs(offset) < MOST):
        before = np.float32(0) if found.bias is None else found.bias
        return ledger.track(call, replace(found, bias=np.asarray(before + own, np.float32)))
    return ledger.track(call, replace(found, offset=offset.astype(np.int64)))


def _bound(
    ledger: Ledger, call: relax.Call, low: float, high: float, data: relax.Expr | None = None
) -> relax.Expr | None:
    found = ledger.find(call.args[0] if data is None else data)
    if not isinstance(found, Accumulator):
        return None
    low, high = (min(max(each, low), high) for each in (found.low, found.high))
    return ledger.track(call, replace(found, low=low, high=high))


def _relu(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    return _bound(ledger, call, 0.0, float("inf"))


def _clip(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    low, high = (float(each.value) if hasattr(each, "value") else None for each in call.args[1:])
    return None if low is None or high is None else _bound(ledger, call, low, high)


def _maximum(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    return _bound_by(ledger, call, lambda number: (number, float("inf")))


def _minimum(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    return _bound_by(ledger, call, lambda number: (float("-inf"), number))


def _bound_by(ledger: Ledger, call: relax.Call, bounds: Callable[[float], tuple[float, float]]) -> relax.Expr | None:
    """Bound an accumulator by a constant of one number, which may be either operand."""
    for one, other in (call.args, reversed(call.args)):
        number = _read_one(ledger, other)
        if number is not None and (made := _bound(ledger, call, *bounds(number), one)) is not None:
            return made
    return None


def _take_factor(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    """Fold a positive constant that multiplies quantised numbers, like `alpha` of Gemm, into their scale."""
    for one, other in (call.args, reversed(call.args)):
        found, factor = ledger.find(one), _read_one(ledger, other)
        if isinstance(found, Quantised) and factor is not None and factor > 0:
            scale = np.float32(found.scale * np.float32(factor))
            if np.isfinite(scale) and scale > 0:
                return ledger.track(call, replace(found, scale=scale))
    return None


def _read_one(ledger: Ledger, expr: relax.Expr) -> float | None:
    """Return a constant of one number, or None for other expressions and for NaN, which bounds nothing here."""
    value = ledger.read_constant(expr)
    return None if value is None or value.ndim or np.isnan(value) else float(value)


def _drop_leading_ones(array: np.ndarray[Any, Any], rank: int) -> np.ndarray[Any, Any]:
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array


RULES: Mapping[str, Rule] = {
    "relax.nn.conv2d": _convolve,
    "relax.nn.conv2d_transpose": _convolve_transposed,
    "relax.matmul": _multiply,
    "relax.multiply": _take_factor,
    "relax.add": _add,
    "relax.nn.relu": _relu,
    "relax.clip": _clip,
    "relax.maximum": _maximum,
    "relax.minimum": _minimum,
}


# Int32 accumulators: quantised tensors convolved with or multiplied by constant weights, or multiplied by each other.


def convolve(
    emit: Emit, call: relax.Call, data: Quantised | ByChannel, weights: QuantizedConstant
) -> Accumulator | None:
    """Return the accumulator of a quantised NCHW convolution, or None if it cannot be computed in integers.

    The weights must fit in int8, and may have scales only along their outputs. The data may have a scale for each
    channel only in a depthwise convolution.
    """
    values = read_weights(weights, outputs=0)
    if values is None:
        return None
    if (weights.is_per_axis and weights.axis != 0) or str(call.attrs.kernel_layout) != "OIHW":
        return missed("its weights have scales along another axis than its outputs'")
    attributes, source = call.attrs, data.value
    if isinstance(data, ByChannel) and not is_depthwise(values.shape, int(attributes.groups)):
        return missed("its data have a scale for each channel")
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
    """Return whether OIHW weights are depthwise: output i reads only input channel i."""
    return groups > 1 and weights[1] == 1 and weights[0] == groups


def multiply(emit: Emit, data: Quantised, weights: QuantizedConstant) -> Accumulator | None:
    """Return the accumulator of a product with a constant matrix, or None if it cannot be computed in integers.

    The weights must fit in int8, and may have scales only along their columns, the outputs.
    """
    values = read_weights(weights, outputs=-1)
    if values is None:
        return None
    if values.ndim != 2 or (weights.is_per_axis and weights.axis != 1):
        return missed("its weights are in more than two axes, or have scales along another than its outputs'")
    total = relax.op.matmul(data.value, constant(values), out_dtype="int32")
    offset = -data.zero * values.astype(np.int64).sum(axis=0)
    scale = data.scale * weights.scales.astype(np.float32)
    return Accumulator(emit(total), offset, scale.reshape(-1 if weights.is_per_axis else ()))


def multiply_both(emit: Emit, left: Quantised, right: Quantised) -> Accumulator | None:
    """Return the accumulator of a product of two activations, or None for vectors and for rows with too large sums."""
    if not suits(left.value, right.value):
        return missed("it is of vectors, or its rows are of too many numbers")
    total = multiply_matrices(emit, Bytes(left.value, left.zero), Bytes(right.value, right.zero))
    return Accumulator(total, np.zeros((), np.int64), np.asarray(left.scale * right.scale))


def read_weights(weights: QuantizedConstant, outputs: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]] | None:
    """Return the weights minus their zero points as int8, or None if these or an output's sum are too large.

    ``outputs`` is the axis of the outputs.
    """
    values = weights.differences
    if values.ndim < 2 or values.size == 0 or values.min() < -UNSIGNED or values.max() >= UNSIGNED:
        return missed("its weights without their zeros do not fit in int8")
    each_output = np.moveaxis(np.abs(values), outputs, 0).reshape(values.shape[outputs], -1)
    largest = int(each_output.sum(axis=1).max()) * np.iinfo(np.uint8).max
    if largest >= MOST:
        return missed(f"its sums may be {largest}, and have no room in int32 beside their offset")
    return np.ascontiguousarray(values.astype(np.int8))


# Transposed convolutions of quantised tensors, split by phases. Output `strides · m + phase` is a sum over the inputs
# near `m`, with the weights at the places of that phase. All phases are one convolution with that many times the
# channels, and its output is put in order.


def convolve_transposed(
    emit: Emit, call: relax.Call, data: Quantised, weights: QuantizedConstant
) -> Accumulator | None:
    """Return the accumulator of a transposed NCHW convolution, or None if it cannot be computed in integers.

    It must have neither groups nor a dilation. The conditions of `convolve` on weights hold here, too.
    """
    values, shape, output = read_weights(weights, outputs=1), static_shape(data.value), static_shape(call)
    attributes = call.attrs
    if values is None or is_missed(_list_obstacles(call, weights)) or shape is None or output is None:
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
        return missed("its padding crops all that some input adds to")
    kernels = _gather(values, ways)
    width = [0, 0, 0, 0, *(each for way in ways for each in (way.before, way.after))]
    padded = emit(relax.op.nn.pad(data.value, width, pad_value=data.zero)) if any(width) else data.value
    total = emit(relax.op.nn.conv2d(padded, constant(kernels), out_dtype="int32"))
    if data.zero:  # the data are padded with the zero point, and each phase has other weights
        offset = -data.zero * kernels.astype(np.int64).sum(axis=(1, 2, 3))
        total = emit(relax.op.add(total, constant(offset.astype(np.int32).reshape(1, -1, 1, 1))))
    scale = data.scale * weights.scales.astype(np.float32)
    return Accumulator(
        _put_in_order(emit, total, ways, output),
        np.zeros((), np.int64),
        np.asarray(scale.reshape([1, -1, 1, 1] if weights.is_per_axis else ())),
    )


def _list_obstacles(call: relax.Call, weights: QuantizedConstant) -> Iterator[str]:
    if any(static_shape(each) is None for each in (call.args[0], call)):
        yield "its shape is not known"
    if weights.is_per_axis and weights.axis != 1:
        yield "its weights have scales along another axis than its outputs'"
    if int(call.attrs.groups) > 1 or any(int(each) != 1 for each in call.attrs.dilation):
        yield "it has groups or a dilation"
    yield from list_layouts(call, "NCHW", "IOHW")


def _gather(values: np.ndarray[Any, Any], ways: list[Direction]) -> np.ndarray[Any, Any]:
    """Reorder IOHW weights by phases: (outputs, phases of rows, phases of columns) x inputs x taps."""
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
