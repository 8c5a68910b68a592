"""Lists of tensors, as exporters write chunk, unbind, append and stack, become plain nodes that compute the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from quantized_nodes import run_onnx

from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.expand.tensor_sequences import OPERATORS
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError


@dataclass
class Graph:
    """A graph under construction: nodes, constants and outputs."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any, kind: str = "int64") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(values, kind)
        return name

    def model(self, data: np.ndarray, opset: int = 17) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        weights = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "net", [x], outputs, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def check(graph: Graph, data: np.ndarray, opset: int = 17) -> onnx.ModelProto:
    """Assert that the expanded model has no sequences, and gives the original's results in ONNX Runtime."""
    model = graph.model(data, opset)
    expanded = expand_operators(model)
    assert not {node.op_type for node in expanded.graph.node} & OPERATORS
    for got, want in zip(run_onnx(expanded, {"x": data}), run_onnx(model, {"x": data}), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)
    return expanded


@dataclass
class _List:
    """A sequence and the number of its elements."""

    name: str
    count: int


@st.composite
def split(draw: st.DrawFn, graph: Graph, shape: tuple[int, ...]) -> _List:
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    length = shape[axis]
    kind = draw(st.sampled_from(["int32", "int64"]))
    how = draw(st.sampled_from(["size", "sizes", "ones", "squeezed"]))
    if how == "size":
        size = draw(st.integers(1, length + 2))
        return _List(graph.add("SplitToSequence", "x", graph.constant(size, kind), axis=axis), -(-length // size))
    if how == "sizes":
        cuts = sorted(draw(st.lists(st.integers(1, length), max_size=3)))
        sizes = np.diff([0, *cuts, length])
        sizes = sizes[sizes > 0]
        return _List(graph.add("SplitToSequence", "x", graph.constant(sizes, kind), axis=axis), len(sizes))
    keep = {"keepdims": 0} if how == "squeezed" else {}
    return _List(graph.add("SplitToSequence", "x", axis=axis, **keep), length)


@st.composite
def lists(draw: st.DrawFn) -> tuple[Graph, np.ndarray]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    data = np.arange(np.prod(shape), dtype=draw(st.sampled_from(["float32", "int64"]))).reshape(shape)
    graph = Graph()
    start = draw(st.sampled_from(["split", "split", "construct", "empty"]))
    if start == "split":
        made = draw(split(graph, shape))
    elif start == "construct":
        made = _List(graph.add("SequenceConstruct", "x", graph.add("Neg", "x"), "x"), 3)
    else:
        made = _List(graph.add("SequenceEmpty", dtype=helper.np_dtype_to_tensor_dtype(data.dtype)), 0)
    for _ in range(draw(st.integers(0, 4))):
        erases = made.count > 1 and draw(st.booleans())
        most = made.count - 1 if erases else made.count
        place = draw(st.none() | st.integers(-made.count, most))
        given = [] if place is None else [graph.constant(place, draw(st.sampled_from(["int32", "int64"])))]
        if erases:
            made = _List(graph.add("SequenceErase", made.name, *given), made.count - 1)
        else:
            made = _List(graph.add("SequenceInsert", made.name, graph.add("Neg", "x"), *given), made.count + 1)
    graph.outputs.append(graph.add("SequenceLength", made.name))
    for place in range(-made.count, made.count):
        graph.outputs.append(graph.add("SequenceAt", made.name, graph.constant(place)))
    return graph, data


@settings(max_examples=60, deadline=None)
@given(drawn=lists(), opset=st.sampled_from([11, 13, 18]))
def test_drawn_lists(drawn: tuple[Graph, np.ndarray], opset: int) -> None:
    check(*drawn, opset)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("new", [0, 1])
@pytest.mark.parametrize("opset", [11, 17])
def test_put_together(axis: int, new: int, opset: int) -> None:
    data, graph = np.arange(12, dtype=np.float32).reshape(2, 6), Graph()
    if not new and not -2 <= axis < 2:
        return
    parts = graph.add("SplitToSequence", "x", graph.constant(2), axis=1)
    graph.outputs.append(graph.add("ConcatFromSequence", parts, axis=axis, new_axis=new))
    check(graph, data, opset)


def test_a_shape_hidden_by_a_sum() -> None:
    graph = Graph()
    part = graph.add("SequenceAt", graph.add("SplitToSequence", "x", graph.constant(4)), graph.constant(0))
    graph.outputs.append(graph.add("ReduceSum", part, keepdims=0))
    check(graph, np.arange(12, dtype=np.float32).reshape(6, 2))


def test_a_list_that_a_loop_fills() -> None:
    """The loop runs `append`, and `stack` follows."""
    inputs = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        helper.make_tensor_sequence_value_info("before", TensorProto.FLOAT, None),
    ]
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["row"]),
        helper.make_node("SequenceInsert", ["before", "row"], ["after"]),
        helper.make_node("Identity", ["on"], ["still"]),
    ]
    outputs = [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_sequence_value_info("after", TensorProto.FLOAT, None),
    ]
    graph = Graph()
    rows = graph.add("Gather", graph.add("Shape", "x"), graph.constant(0))
    start = graph.add("SequenceEmpty", dtype=TensorProto.FLOAT)
    body = helper.make_graph(nodes, "body", inputs, outputs)
    filled = graph.add("Loop", rows, graph.constant(True, "bool"), start, body=body)
    graph.outputs.append(graph.add("ConcatFromSequence", filled, axis=0, new_axis=1))
    check(graph, np.arange(12, dtype=np.float32).reshape(4, 3))


def test_a_function_of_each_element() -> None:
    element = helper.make_tensor_value_info("e", TensorProto.FLOAT, None)
    result = helper.make_tensor_value_info("n", TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["n"])], "body", [element], [result])
    graph = Graph()
    mapped = graph.add("SequenceMap", graph.add("SplitToSequence", "x"), body=body)
    graph.outputs.append(graph.add("ConcatFromSequence", mapped, axis=0))
    check(graph, np.arange(6, dtype=np.float32).reshape(3, 2))


def test_a_place_that_is_fed_is_refused() -> None:
    graph = Graph()
    parts = graph.add("SplitToSequence", "x")
    place = graph.add("Cast", graph.add("ReduceMax", "x", keepdims=0), to=TensorProto.INT64)
    graph.outputs.append(graph.add("SequenceAt", parts, place))
    with pytest.raises(
        TvmbuildError, match=r"net: the operator SequenceAt \(output 'v3'\) cannot be built: which elements"
    ):
        import_model(graph.model(np.zeros(3, np.float32)), "net")
