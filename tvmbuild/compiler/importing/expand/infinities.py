"""Marks for maxima and minima that may see only infinities, as in masked attention."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

MEETS_INFINITIES = "tvmbuild.meets_infinities"
"""The mark, an attribute that no ONNX operator has."""
_CONCERNED = frozenset({"ReduceMax", "ReduceMin"})
_PASSING = frozenset(
    {"Add", "Cast", "Concat", "Div", "Expand", "Flatten", "Gather", "Identity", "Max", "Min", "Mul", "Neg", "Reshape"}
    | {"Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"}
)
"""Operators that pass on infinities that a caller may feed, as an attention mask; a sum makes them useless."""
_FLOATS = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16})


def mark_infinities(graph: onnx.GraphProto) -> onnx.GraphProto:
    """Return the graph with the mark on each maximum and minimum that infinities may reach.

    The result is the graph itself if there are none. Infinities are constants, results of a logarithm, and inputs, the
    last only until something is summed.
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
