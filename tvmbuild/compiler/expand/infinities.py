"""Which maxima and minima may be taken of infinities alone: those of a masked attention, say."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

MEETS_INFINITIES = "tvmbuild.meets_infinities"
"""An attribute that no operator of ONNX has."""
_CONCERNED = frozenset({"ReduceMax", "ReduceMin"})
_FLOATS = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16})


def mark_infinities(graph: onnx.GraphProto) -> None:
    """Give each of these nodes the attribute, in place, where a constant infinity or a logarithm comes before it."""
    if not any(node.op_type in _CONCERNED for node in graph.node):
        return
    reached = {tensor.name for tensor in graph.initializer if _has_infinity(tensor)}
    for node in graph.node:
        if node.op_type == "Log" or reached.intersection(node.input):
            reached.update(node.output)
        if node.op_type in _CONCERNED and node.input[0] in reached:
            node.attribute.append(helper.make_attribute(MEETS_INFINITIES, 1))


def _has_infinity(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type in _FLOATS and bool(np.isinf(numpy_helper.to_array(tensor)).any())
