"""Operators that decide: a rounding error in their scores may change the result by a whole step or by a whole row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

_DECIDED_BY: Mapping[str, int] = {
    **dict.fromkeys(("TopK", "ArgMax", "ArgMin", "Hardmax", "Floor", "Ceil", "Round", "Sign", "Cast"), 0),
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), 0),
    "NonMaxSuppression": 1,
}
"""Operator → the input with the scores."""
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_INTEGERS = frozenset(
    {
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    }
)


@dataclass(frozen=True)
class WatchedModel:
    """A model that returns the scores of its decisions, and takes a change of each."""

    model: bytes
    scores: Mapping[str, np.dtype]
    """Name of a score, which is an output of the model → its type."""


def watch_decisions(model: bytes) -> WatchedModel:
    """Return the model with the floating-point scores of its decisions as outputs; an additional input changes each.

    Scores in the bodies of loops and branches, constants, inputs of the model, and scores whose number depends on the
    data are left out.
    """
    proto = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(model), data_prop=True)
    graph = proto.graph
    kinds = {each.name: each.type.tensor_type.elem_type for each in (*graph.value_info, *graph.output)}
    fixed = {each.name for each in (*graph.value_info, *graph.output) if _has_fixed_shape(each.type.tensor_type)}
    floats = {name for name, kind in kinds.items() if kind in _FLOATS and name in fixed}
    shown = {each.name for each in graph.output}
    places = {name: place for place, node in enumerate(graph.node) for name in node.output}
    decisions = [(node, at) for node, at in _list_decisions(graph) if node.input[at] in floats & places.keys()]
    scores = {name: helper.tensor_dtype_to_np_dtype(kinds[name]) for name in (n.input[at] for n, at in decisions)}
    for node, at in decisions:
        node.input[at] = _changed(node.input[at])
    for score in sorted(scores, key=lambda name: places[name], reverse=True):
        addition = helper.make_node("Add", [score, name_change(score)], [_changed(score)])
        graph.node.insert(places[score] + 1, addition)
        graph.input.append(helper.make_tensor_value_info(name_change(score), kinds[score], None))
        if score not in shown:
            graph.output.append(helper.make_tensor_value_info(score, kinds[score], None))
    return WatchedModel(proto.SerializeToString(), scores)


def _has_fixed_shape(tensor: Any) -> bool:
    return tensor.HasField("shape") and all(each.HasField("dim_value") for each in tensor.shape.dim)


def _list_decisions(graph: Any) -> Iterator[tuple[Any, int]]:
    for node in graph.node:
        at = _DECIDED_BY.get(node.op_type)
        if at is None or node.domain not in {"", "ai.onnx"} or len(node.input) <= at:
            continue
        if node.op_type == "Cast" and next(each.i for each in node.attribute if each.name == "to") not in _INTEGERS:
            continue
        yield node, at


def name_change(score: str) -> str:
    """Return the name of the input that is added to the score before the decision; any shape that fits will do."""
    return f"change of {score}"


def _changed(score: str) -> str:
    return f"changed {score}"
