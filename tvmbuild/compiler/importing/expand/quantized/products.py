"""Expansion of QLinearConv, QLinearMatMul and QGemm, the quantised sums of products."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.quantized.compose import Quantized, QuantizedComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of


def linear_conv(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearConv; the bias has the scale of the products.

    Return None if channels come last and the shape of the weights is unknown.
    """
    composer, attributes = QuantizedComposer(node, scope), attributes_of(node)
    data, weights, result = _read_operands(node)
    rank = 0
    if attributes.pop("channels_last", 0):
        rank = len(scope.shape(weights.value) or ())
        if not rank:
            return None
    inputs = [composer.dequantize(composer.channels_first(data, rank))]
    inputs.append(composer.dequantize(weights, composer.find_axis(weights, 0)))
    if len(node.input) > 8 and node.input[8]:
        inputs.append(_dequantize_bias(composer, node.input[8], (data, weights), 0))
    composer.quantize(composer.add("Conv", *inputs, **attributes), result, TensorProto.UINT8, rank)
    return composer.nodes


def linear_matmul(node: onnx.NodeProto, scope: Scope) -> Nodes:
    """Expand QLinearMatMul; the first matrix may have parameters for each row, the second for each column."""
    composer = QuantizedComposer(node, scope)
    left, right, result = _read_operands(node)
    product = composer.add("MatMul", _dequantize_along(composer, left, -2), _dequantize_along(composer, right, -1))
    composer.quantize(product, result, TensorProto.UINT8)
    return composer.nodes


def gemm(node: onnx.NodeProto, scope: Scope) -> Nodes:
    """Expand QGemm: multiply matrices and add a bias, whose scale is ``alpha`` times the scale of the products.

    If the node has no scale for its result, the result is floats.
    """
    composer, attributes = QuantizedComposer(node, scope), attributes_of(node)
    names = [*node.input, "", "", ""]
    left, right, bias = Quantized(*names[0:3]), Quantized(*names[3:6]), names[6]
    columns = 0 if attributes.get("transB", 0) else 1
    inputs = [composer.dequantize(left), composer.dequantize(right, composer.find_axis(right, columns))]
    if bias:
        inputs.append(_dequantize_bias(composer, bias, (left, right), -1, attributes.get("alpha", 1.0)))
    result = composer.add("Gemm", *inputs, **attributes)
    if names[7]:
        composer.quantize(result, Quantized(node.output[0], *names[7:9]), TensorProto.UINT8)
    else:
        composer.name(result, node.output[0])
    return composer.nodes


def _read_operands(node: onnx.NodeProto) -> tuple[Quantized, Quantized, Quantized]:
    names = node.input
    return Quantized(*names[0:3]), Quantized(*names[3:6]), Quantized(node.output[0], *names[6:8])


def _dequantize_along(composer: QuantizedComposer, of: Quantized, axis: int) -> str:
    """Dequantise matrices along ``axis``; if several matrices have parameters of their own, use broadcasting."""
    shapes = (composer.shape(of.scale), composer.shape(of.zero_point))
    if any(size > 1 for shape in shapes if len(shape) > 1 for size in (*shape[:axis], *shape[axis:][1:])):
        return composer.dequantize_broadcast(of)
    return composer.dequantize(of, composer.find_axis(of, axis))


def _dequantize_bias(
    composer: QuantizedComposer, bias: str, of: tuple[Quantized, Quantized], axis: int, alpha: float = 1.0
) -> str:
    """Dequantise the bias by the product of both operands' scales and ``alpha``."""
    (left, right), shape = of, composer.shape(bias)
    scale = composer.add("Mul", composer.parameter(left.scale), composer.parameter(right.scale))
    if alpha != 1.0:
        scale = composer.add("Mul", scale, composer.number(alpha))
    along = composer.find_axis(Quantized(bias, right.scale), axis)
    if along is not None and shape[-1:] != (composer.count(right.scale),):
        return composer.dequantize_broadcast(Quantized(bias, scale))
    return composer.dequantize(Quantized(bias, scale), along)
