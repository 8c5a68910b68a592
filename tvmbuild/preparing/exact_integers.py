"""Int8 weights as uint8 for ONNX Runtime, whose sums of int8 saturate on x86 without VNNI.

There a pair of products is added in 16 bits (``vpmaddubsw``); products of two uint8 are added in 32. Both forms define
the same result: the weights and their zero point are greater by 128.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

ZERO = 128


@dataclass(frozen=True)
class _Inputs:
    """The input indices of an operator's weights, their zero point, and the other factor's zero point.

    None for the other zero point: the operator has no such input, and its other factor is uint8.
    """

    weights: int
    zero: int
    other_zero: int | None
    may_lack_zero: bool = True
    """True if the zero point may be absent, in which case a scalar takes its place."""


_OPERATORS = {
    "QLinearConv": (_Inputs(3, 5, 2),),
    "QLinearMatMul": (_Inputs(3, 5, 2),),
    "QGemm": (_Inputs(3, 5, 2),),
    "ConvInteger": (_Inputs(1, 3, 2),),
    "MatMulInteger": (_Inputs(1, 3, 2),),
    "MatMulIntegerToFloat": (_Inputs(1, 5, 4),),
    "DynamicQuantizeMatMul": (_Inputs(1, 3, None),),
    "DynamicQuantizeLSTM": (_Inputs(1, 9, None, may_lack_zero=False), _Inputs(2, 11, None, may_lack_zero=False)),
}


def use_exact_integers(model: bytes) -> bytes:
    """Return a serialized model that computes this model's defined result on any CPU; itself if it already does.

    Only weights beside uint8 change: ONNX Runtime has no kernels of int8 by uint8.
    """
    if not any(name.encode() in model for name in _OPERATORS):
        return model
    proto = onnx.load_model_from_string(model)
    writer = _Writer(proto.graph)
    for node in proto.graph.node:
        writer.add(node)
    if not writer.moved:
        return model
    del proto.graph.node[:]
    proto.graph.node.extend(writer.nodes)
    return bytes(proto.SerializeToString())


class _Writer:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._types = {each.name: each.type.tensor_type.elem_type for each in graph.input}
        self._types |= {name: tensor.data_type for name, tensor in self._constants.items()}
        self.moved: dict[str, str] = {}
        """Tensor → the name of the same tensor plus 128; "" is a zero point that is not written."""
        self.nodes: list[onnx.NodeProto] = []

    def add(self, node: onnx.NodeProto) -> None:
        """Write the node, in uint8 if its sums might saturate."""
        for inputs in _OPERATORS.get(node.op_type, ()):
            if self._saturates(node, inputs):
                names = [self._move(_name(node, place)) for place in (inputs.weights, inputs.zero)]
                node.input.extend([""] * (inputs.zero + 1 - len(node.input)))
                node.input[inputs.weights], node.input[inputs.zero] = names
        self.nodes.append(node)

    def _saturates(self, node: onnx.NodeProto, inputs: _Inputs) -> bool:
        other = self._types.get(_name(node, inputs.other_zero), onnx.TensorProto.UINT8)
        if not inputs.may_lack_zero and not _name(node, inputs.zero):
            return False
        weights, zero = (self._types.get(_name(node, place)) for place in (inputs.weights, inputs.zero))
        return other == onnx.TensorProto.UINT8 and onnx.TensorProto.INT8 in {weights, zero}

    def _move(self, name: str) -> str:
        if name not in self.moved:
            self.moved[name] = new = f"{name or 'zero'}/uint8"
            if not name:
                self._graph.initializer.append(numpy_helper.from_array(np.array(ZERO, "uint8"), new))
            elif name in self._constants:
                values = numpy_helper.to_array(self._constants[name]).astype("int16") + ZERO
                self._graph.initializer.append(numpy_helper.from_array(values.astype("uint8"), new))
            else:
                self._compute(name, new)
        return self.moved[name]

    def _compute(self, name: str, new: str) -> None:
        amount, wide, more = (f"{new}/{each}" for each in ("128", "wide", "more"))
        self._graph.initializer.append(numpy_helper.from_array(np.array(ZERO, "int32"), amount))
        self.nodes += [
            helper.make_node("Cast", [name], [wide], to=onnx.TensorProto.INT32),
            helper.make_node("Add", [wide, amount], [more]),
            helper.make_node("Cast", [more], [new], to=onnx.TensorProto.UINT8),
        ]


def _name(node: onnx.NodeProto, place: int | None) -> str:
    return "" if place is None or len(node.input) <= place else str(node.input[place])
