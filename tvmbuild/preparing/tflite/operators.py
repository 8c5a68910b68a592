"""TensorFlow Lite operators in ONNX, one function each; operators missing from the table are refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.tflite.graph import OnnxGraph
from tvmbuild.preparing.tflite.reader import Operator

Convert = Callable[[OnnxGraph, Operator], None]
ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}
CLIPS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
SAME = 0


def _activate(graph: OnnxGraph, name: str, kind: str) -> str:
    if kind == "RELU":
        return graph.add("Relu", name)
    if kind == "TANH":
        return graph.add("Tanh", name)
    if kind in CLIPS:
        low, high = CLIPS[kind]
        return graph.add("Clip", name, graph.constant(low), graph.constant(high))
    return name


def _finish(graph: OnnxGraph, operator: Operator, name: str) -> None:
    code = operator.option("FusedActivationFunction", 0)
    if code not in ACTIVATIONS:
        raise TvmbuildError(f"{operator.kind} has an activation that is not converted ({code})")
    graph.write(operator.outputs[0], _activate(graph, name, ACTIVATIONS[code]))


def _pads(
    operator: Operator, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    if operator.option("Padding") != SAME:
        return [0, 0, 0, 0]
    totals = [
        max((math.ceil(size / stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]


def _conv(graph: OnnxGraph, operator: Operator) -> None:
    data, tensor = operator.tensor(0), operator.tensor(1)
    weights = operator.value(1)
    depthwise = operator.kind == "DEPTHWISE_CONV_2D"
    groups = data.shape[3] if depthwise else data.shape[3] // weights.shape[3]
    laid_out = weights.transpose(3, 0, 1, 2) if depthwise else weights.transpose(0, 3, 1, 2)
    strides = [operator.option("StrideH"), operator.option("StrideW")]
    dilations = [operator.option("DilationHFactor"), operator.option("DilationWFactor")]
    kernel = laid_out.shape[2:]
    inputs = [graph.channels_first(graph.real(data)), graph.weights(tensor, laid_out)]
    inputs += [graph.real(bias) for bias in operator.inputs[2:3] if bias is not None]
    result = graph.add(
        "Conv",
        *inputs,
        group=groups,
        strides=strides,
        dilations=dilations,
        kernel_shape=list(kernel),
        pads=_pads(operator, data.shape[1:3], kernel, strides, dilations),
    )
    _finish(graph, operator, graph.channels_last(result))


def _transpose_conv(graph: OnnxGraph, operator: Operator) -> None:
    tensor, data, out = operator.tensor(1), operator.tensor(2), operator.outputs[0].shape[1:3]
    if tensor.is_quantised and tensor.scale is not None and tensor.scale.size > 1:
        raise TvmbuildError("TRANSPOSE_CONV with a scale for each channel is not converted")
    weights = operator.value(1).transpose(3, 0, 1, 2)
    strides, kernel = [operator.option("StrideH"), operator.option("StrideW")], weights.shape[2:]
    spans = [(size - 1) * s + k for size, s, k in zip(data.shape[1:3], strides, kernel, strict=True)]
    totals = [max(span - size, 0) for span, size in zip(spans, out, strict=True)]
    more = [max(size - span, 0) for span, size in zip(spans, out, strict=True)]
    inputs = [graph.channels_first(graph.real(data)), graph.weights(tensor, weights)]
    inputs += [graph.real(bias) for bias in operator.inputs[3:4] if bias is not None]
    result = graph.add(
        "ConvTranspose",
        *inputs,
        strides=strides,
        kernel_shape=list(kernel),
        output_padding=more,
        pads=[total // 2 for total in totals] + [total - total // 2 for total in totals],
    )
    _finish(graph, operator, graph.channels_last(result))


def _fully_connected(graph: OnnxGraph, operator: Operator) -> None:
    tensor = operator.tensor(1)
    if tensor.data is None:
        weights, columns = graph.real(tensor), tensor.shape[1]
    else:
        weights, columns = graph.weights(tensor, tensor.data), tensor.data.shape[1]
    rows = graph.reshape(graph.real(operator.tensor(0)), (-1, columns))
    bias = [graph.real(each) for each in operator.inputs[2:3] if each is not None]
    result = graph.add("Gemm", rows, weights, *bias, transB=1)
    _finish(graph, operator, graph.reshape(result, operator.outputs[0].shape))


def _pool(kind: str) -> Convert:
    def convert(graph: OnnxGraph, operator: Operator) -> None:
        kernel = [operator.option("FilterHeight"), operator.option("FilterWidth")]
        strides = [operator.option("StrideH"), operator.option("StrideW")]
        pads = _pads(operator, operator.tensor(0).shape[1:3], kernel, strides, (1, 1))
        data = graph.channels_first(graph.real(operator.tensor(0)))
        result = graph.add(kind, data, kernel_shape=kernel, strides=strides, pads=pads)
        _finish(graph, operator, graph.channels_last(result))

    return convert


def _same(kind: str, **attributes: Any) -> Convert:
    """Return the conversion of an operator that ONNX has with the same inputs and one output."""

    def convert(graph: OnnxGraph, operator: Operator) -> None:
        _finish_plain(graph, operator, graph.add(kind, *graph.real_inputs(operator), **attributes))

    return convert


def _finish_plain(graph: OnnxGraph, operator: Operator, name: str) -> None:
    has_activation = hasattr(operator.options, "FusedActivationFunction")
    if has_activation:
        _finish(graph, operator, name)
    else:
        graph.write(operator.outputs[0], name)


def _clip(kind: str) -> Convert:
    def convert(graph: OnnxGraph, operator: Operator) -> None:
        graph.write(operator.outputs[0], _activate(graph, graph.real(operator.tensor(0)), kind))

    return convert


def _rsqrt(graph: OnnxGraph, operator: Operator) -> None:
    root = graph.add("Sqrt", graph.real(operator.tensor(0)))
    graph.write(operator.outputs[0], graph.add("Reciprocal", root))


def _square(graph: OnnxGraph, operator: Operator) -> None:
    inputs = graph.real_inputs(operator)
    base = inputs[0] if len(inputs) == 1 else graph.add("Sub", *inputs)
    graph.write(operator.outputs[0], graph.add("Mul", base, base))


def _leaky_relu(graph: OnnxGraph, operator: Operator) -> None:
    data = graph.real(operator.tensor(0))
    graph.write(operator.outputs[0], graph.add("LeakyRelu", data, alpha=float(operator.option("Alpha"))))


def _softmax(graph: OnnxGraph, operator: Operator) -> None:
    data, beta = graph.real(operator.tensor(0)), float(operator.option("Beta", 1.0))
    scaled = data if beta == 1.0 else graph.add("Mul", data, graph.constant(beta))
    graph.write(operator.outputs[0], graph.add("Softmax", scaled, axis=-1))


def _reduce(kind: str) -> Convert:
    def convert(graph: OnnxGraph, operator: Operator) -> None:
        axes = [int(axis) for axis in np.ravel(operator.value(1))]
        keeps = int(bool(operator.option("KeepDims")))
        data = graph.real(operator.tensor(0))
        if kind == "ReduceSum":
            result = graph.add(kind, data, graph.constant(axes, np.int64), keepdims=keeps)
        else:
            result = graph.add(kind, data, axes=axes, keepdims=keeps)
        graph.write(operator.outputs[0], result)

    return convert


def _reshape(graph: OnnxGraph, operator: Operator) -> None:
    output = operator.outputs[0]
    graph.write(output, graph.reshape(graph.real(operator.tensor(0)), output.shape))


def _concatenate(graph: OnnxGraph, operator: Operator) -> None:
    _finish(graph, operator, graph.add("Concat", *graph.real_inputs(operator), axis=operator.option("Axis")))


def _pack(graph: OnnxGraph, operator: Operator) -> None:
    axis = graph.constant([operator.option("Axis")], np.int64)
    parts = [graph.add("Unsqueeze", each, axis) for each in graph.real_inputs(operator)]
    graph.write(operator.outputs[0], graph.add("Concat", *parts, axis=operator.option("Axis")))


def _pad(graph: OnnxGraph, operator: Operator) -> None:
    pads = operator.value(1).astype(np.int64)
    inputs = [graph.real(operator.tensor(0)), graph.constant([*pads[:, 0], *pads[:, 1]], np.int64)]
    if operator.kind == "MIRROR_PAD":
        if operator.option("Mode") != 0:
            raise TvmbuildError("MIRROR_PAD that repeats the border is not converted")
        graph.write(operator.outputs[0], graph.add("Pad", *inputs, mode="reflect"))
        return
    value = operator.inputs[2] if operator.kind == "PADV2" else None
    graph.write(operator.outputs[0], graph.add("Pad", *inputs, *([graph.real(value)] if value else [])))


def _transpose(graph: OnnxGraph, operator: Operator) -> None:
    order = [int(axis) for axis in operator.value(1)]
    graph.write(operator.outputs[0], graph.add("Transpose", graph.real(operator.tensor(0)), perm=order))


def _resize(mode: str) -> Convert:
    def convert(graph: OnnxGraph, operator: Operator) -> None:
        corners, centers = operator.option("AlignCorners"), operator.option("HalfPixelCenters")
        where = "align_corners" if corners else "half_pixel" if centers else "asymmetric"
        rounding: dict[str, Any] = (
            {"nearest_mode": "round_prefer_ceil" if corners or centers else "floor"} if mode == "nearest" else {}
        )
        shape = operator.outputs[0].shape
        sizes = graph.constant([shape[0], shape[3], *shape[1:3]], np.int64)
        data = graph.channels_first(graph.real(operator.tensor(0)))
        result = graph.add("Resize", data, "", "", sizes, mode=mode, coordinate_transformation_mode=where, **rounding)
        graph.write(operator.outputs[0], graph.channels_last(result))

    return convert


def _slice(graph: OnnxGraph, operator: Operator) -> None:
    data = operator.tensor(0)
    starts, sizes = operator.value(1), operator.value(2)
    ends = [
        int(start + size) if size >= 0 else data.shape[axis]
        for axis, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    bounds = [graph.constant(each, np.int64) for each in (starts, ends)]
    graph.write(operator.outputs[0], graph.add("Slice", graph.real(data), *bounds))


def _strided_slice(graph: OnnxGraph, operator: Operator) -> None:
    if operator.option("EllipsisMask") or operator.option("NewAxisMask"):
        raise TvmbuildError("STRIDED_SLICE with an ellipsis or a new axis is not converted")
    starts, ends, steps = ([int(each) for each in operator.value(index)] for index in (1, 2, 3))
    for axis, step in enumerate(steps):
        bit = 1 << axis
        if operator.option("ShrinkAxisMask") & bit:
            ends[axis] = starts[axis] + 1 if starts[axis] != -1 else np.iinfo(np.int64).max
            continue
        if operator.option("BeginMask") & bit:
            starts[axis] = 0 if step > 0 else np.iinfo(np.int64).max
        if operator.option("EndMask") & bit:
            ends[axis] = np.iinfo(np.int64).max if step > 0 else np.iinfo(np.int64).min
    axes = list(range(len(steps)))
    bounds = [graph.constant(each, np.int64) for each in (starts, ends, axes, steps)]
    result = graph.add("Slice", graph.real(operator.tensor(0)), *bounds)
    graph.write(operator.outputs[0], graph.reshape(result, operator.outputs[0].shape))


def _split(graph: OnnxGraph, operator: Operator) -> None:
    at, axis_at = (1, 0) if operator.kind == "SPLIT" else (0, 2)
    axis = int(np.ravel(operator.value(axis_at))[0])
    sizes = [output.shape[axis] for output in operator.outputs]
    inputs = (graph.real(operator.tensor(at)), graph.constant(sizes, np.int64))
    for output, name in zip(operator.outputs, graph.add_all("Split", inputs, len(sizes), axis=axis), strict=True):
        graph.write(output, name)


def _unpack(graph: OnnxGraph, operator: Operator) -> None:
    axis, count = operator.option("Axis"), len(operator.outputs)
    inputs = (graph.real(operator.tensor(0)), graph.constant([1] * count, np.int64))
    for output, name in zip(operator.outputs, graph.add_all("Split", inputs, count, axis=axis), strict=True):
        graph.write(output, graph.reshape(name, output.shape))


def _gather(graph: OnnxGraph, operator: Operator) -> None:
    if operator.option("BatchDims"):
        raise TvmbuildError("GATHER with batch dimensions is not converted")
    inputs = (graph.real(operator.tensor(0)), graph.read(operator.tensor(1)))
    graph.write(operator.outputs[0], graph.add("Gather", *inputs, axis=operator.option("Axis")))


def _cast(graph: OnnxGraph, operator: Operator) -> None:
    output = operator.outputs[0]
    kind = helper.np_dtype_to_tensor_dtype(output.dtype)
    graph.write_plain(output, graph.add("Cast", graph.read(operator.tensor(0)), to=kind))


def _dequantise(graph: OnnxGraph, operator: Operator) -> None:
    data = operator.tensor(0)
    name = graph.real(data)
    if data.dtype == np.float16:
        name = graph.add("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)))
    graph.write_plain(operator.outputs[0], name)


def _arg_max(graph: OnnxGraph, operator: Operator) -> None:
    axis = int(np.ravel(operator.value(1))[0])
    found = graph.add("ArgMax", graph.real(operator.tensor(0)), axis=axis, keepdims=0)
    output = operator.outputs[0]
    graph.write_plain(output, graph.add("Cast", found, to=helper.np_dtype_to_tensor_dtype(output.dtype)))


def _batch_matmul(graph: OnnxGraph, operator: Operator) -> None:
    names = graph.real_inputs(operator)
    for index, option in enumerate(("AdjX", "AdjY")):
        if operator.option(option):
            order = list(range(len(operator.tensor(index).shape)))
            names[index] = graph.add("Transpose", names[index], perm=[*order[:-2], order[-1], order[-2]])
    graph.write(operator.outputs[0], graph.add("MatMul", *names))


def _move_depth(kind: str) -> Convert:
    def convert(graph: OnnxGraph, operator: Operator) -> None:
        if kind == "SpaceToDepth" and operator.tensor(0).shape[3] != 1:
            raise TvmbuildError("SPACE_TO_DEPTH of several channels is not converted")
        data = graph.channels_first(graph.real(operator.tensor(0)))
        result = graph.add(kind, data, blocksize=operator.option("BlockSize"))
        graph.write(operator.outputs[0], graph.channels_last(result))

    return convert


OPERATORS: dict[str, Convert] = {
    "ABS": _same("Abs"),
    "ADD": _same("Add"),
    "ARG_MAX": _arg_max,
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "BATCH_MATMUL": _batch_matmul,
    "CAST": _cast,
    "CONCATENATION": _concatenate,
    "CONV_2D": _conv,
    "COS": _same("Cos"),
    "DEPTHWISE_CONV_2D": _conv,
    "DEPTH_TO_SPACE": _move_depth("DepthToSpace"),
    "DEQUANTIZE": _dequantise,
    "DIV": _same("Div"),
    "ELU": _same("Elu"),
    "EXP": _same("Exp"),
    "EXPAND_DIMS": _reshape,
    "FLOOR": _same("Floor"),
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "HARD_SWISH": _same("HardSwish"),
    "LEAKY_RELU": _leaky_relu,
    "LOG": _same("Log"),
    "LOGISTIC": _same("Sigmoid"),
    "MAXIMUM": _same("Max"),
    "MAX_POOL_2D": _pool("MaxPool"),
    "MEAN": _reduce("ReduceMean"),
    "MINIMUM": _same("Min"),
    "MIRROR_PAD": _pad,
    "MUL": _same("Mul"),
    "NEG": _same("Neg"),
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "POW": _same("Pow"),
    "PRELU": _same("PRelu"),
    "QUANTIZE": _same("Identity"),
    "REDUCE_MAX": _reduce("ReduceMax"),
    "REDUCE_MIN": _reduce("ReduceMin"),
    "RELU": _clip("RELU"),
    "RELU6": _clip("RELU6"),
    "RELU_N1_TO_1": _clip("RELU_N1_TO_1"),
    "RESHAPE": _reshape,
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "RSQRT": _rsqrt,
    "SIN": _same("Sin"),
    "SLICE": _slice,
    "SOFTMAX": _softmax,
    "SPACE_TO_DEPTH": _move_depth("SpaceToDepth"),
    "SPLIT": _split,
    "SPLIT_V": _split,
    "SQRT": _same("Sqrt"),
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _square,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _same("Sub"),
    "SUM": _reduce("ReduceSum"),
    "TANH": _same("Tanh"),
    "TRANSPOSE": _transpose,
    "TRANSPOSE_CONV": _transpose_conv,
    "UNPACK": _unpack,
}
