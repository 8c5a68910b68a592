"""Marks on maxima and minima of elements that may all be infinite, as in masked attention."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

MEETS_INFINITIES = "tvmbuild.meets_infinities"
"""The name of the mark, which is an attribute that no ONNX operator has."""
_CONCERNED = frozenset({"ReduceMax", "ReduceMin"})
_PASSING = frozenset(
    {"Add", "Cast", "Concat", "Div", "Expand", "Flatten", "Gather", "Identity", "Max", "Min", "Mul", "Neg", "Reshape"}
    | {"Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"}
)
"""Operators that pass infinities on that a caller may feed, for example in an attention mask.

After a sum, infinities are useless, so that they are not followed further.
"""
_FLOATS = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16})


def mark_infinities(graph: onnx.GraphProto) -> onnx.GraphProto:
    """Return the graph with the mark on each ReduceMax and ReduceMin that infinities may reach.

    If there are none, the result is the graph itself. Infinities come from constants, from logarithms, and from inputs
    until something is summed.
    """
    if not any(node.op_type in _CONCERNED for node in graph.node):
        return graph
    reached = {tensor.name for tensor in graph.initializer if _has_infinity(tensor)}
    fed = {value.name for value in graph.input if value.type.tensor_type.elem_type in _FLOATS} - reached
    marked = []
    for index, node in enumerate(graph.node):
        if node.op_type in _PASSING and fed.intersection(node.input):
            fed.update(node.output)
        if node.op_type == "Log" or reached.intersection(node.input):
            reached.update(node.output)
        if node.op_type in _CONCERNED and node.input[0] in reached | fed:
            marked.append(index)
    if not marked:
        return graph
    result = onnx.GraphProto()
    result.CopyFrom(graph)
    for index in marked:
        result.node[index].attribute.append(helper.make_attribute(MEETS_INFINITIES, 1))
    return result


def _has_infinity(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type in _FLOATS and bool(np.isinf(numpy_helper.to_array(tensor)).any())
