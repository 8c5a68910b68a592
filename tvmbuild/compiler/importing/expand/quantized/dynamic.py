"""Expansion of com.microsoft's integer products with scales found at run time to MatMulInteger and a scale."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.quantized.compose import Quantized, QuantizedComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope


def dynamic_matmul(node: onnx.NodeProto, scope: Scope) -> Nodes:
    """Expand DynamicQuantizeMatMul: quantise the first matrix by its own range, then multiply."""
    composer = QuantizedComposer(node, scope)
    data, right, scale, zero_point, bias = [*node.input, "", ""][:5]
    left = Quantized(*(scope.fresh(data) for _ in range(3)))
    outputs = [left.value, left.scale, left.zero_point]
    composer.nodes.append(helper.make_node("DynamicQuantizeLinear", [data], outputs))
    return _multiply(composer, (left, Quantized(right, scale, zero_point)), bias, node.output[0])


def matmul_to_float(node: onnx.NodeProto, scope: Scope) -> Nodes:
    """Expand MatMulIntegerToFloat: multiply integers and scale the sums."""
    left, right, left_scale, right_scale, left_zero, right_zero, bias = [*node.input, "", "", ""][:7]
    operands = Quantized(left, left_scale, left_zero), Quantized(right, right_scale, right_zero)
    return _multiply(QuantizedComposer(node, scope), operands, bias, node.output[0])


def _multiply(composer: QuantizedComposer, of: tuple[Quantized, Quantized], bias: str, output: str) -> Nodes:
    left, right = of
    zeros = [left.zero_point, right.zero_point]
    while zeros and not zeros[-1]:
        zeros.pop()
    sums = composer.add("MatMulInteger", left.value, right.value, *zeros)
    kind = composer.scope.element_type(right.scale) or TensorProto.FLOAT
    # The scales are multiplied first, as in ONNX Runtime: they are constants, or few.
    scale = composer.add("Mul", left.scale, right.scale)
    product = composer.add("Mul", composer.add("Cast", sums, to=kind), scale)
    composer.name(composer.add("Add", product, bias) if bias else product, output)
    return composer.nodes
