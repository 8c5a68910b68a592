"""A quantised model as somebody else would add it up: what a rounding of its sums decides, it decides otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

_ROUNDING = 2.0**-21
"""What the order of a sum of some hundred float32 products changes of it."""


_SCALES: Mapping[str, int] = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "QGemm"), 4),
    **dict.fromkeys(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"), 1),
    **dict.fromkeys(("QLinearGlobalAveragePool", "QLinearAveragePool"), 1),
    "DynamicQuantizeMatMul": 2,
    "MatMulIntegerToFloat": 3,
    "DynamicQuantizeLSTM": 8,
}
"""Of operators that compute in integers: which input is the scale of their weights, or of their first operand.

What QLinearAdd makes of a sum that lies half-way between two steps is left open; ONNX Runtime adds up in another order.
"""


def shake(model: bytes) -> bytes:
    """Return the model with the scales of its weights changed by a rounding error, up and down in turn.

    So are those of one operand of operators of integers that have no weights. A model that has neither is returned as
    it is. Where data are rounded by a range of their own, a scale is what theirs is multiplied by.
    """
    proto = onnx.load_model_from_string(model)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    found = {node.output[1] for node in proto.graph.node if node.op_type == "DynamicQuantizeLinear"}
    scales = [name for node in proto.graph.node if (name := _find_scale(node, constants, found))]
    for index, name in enumerate(dict.fromkeys(scales)):
        if name not in constants or constants[name].data_type != TensorProto.FLOAT:
            continue
        tensor, factor = constants[name], np.float32(1 + (_ROUNDING if index % 2 else -_ROUNDING))
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * factor, name))
    shaken: bytes = proto.SerializeToString(deterministic=True)
    return shaken


def _find_scale(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto], found: Collection[str]) -> str:
    if node.op_type == "Mul" and any(name in found for name in node.input):
        return next((name for name in node.input if name in constants), "")
    if node.op_type == "DequantizeLinear":
        return str(node.input[1]) if node.input[0] in constants else ""
    return str(node.input[_SCALES[node.op_type]]) if node.op_type in _SCALES else ""
