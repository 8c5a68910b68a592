"""The proof that rows are independent: it holds for drawn networks of row-wise operators, and names each that mixes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.preparing.reference import run_onnx
from tvmbuild.preparing.rows.axis import Dependent
from tvmbuild.preparing.rows.proof import Proven, compare_all, prove_rows

Operators = list[tuple[str, list[str], dict[str, Any]]]
CONSTANTS = {
    "table": np.arange(8, dtype=np.float32).reshape(4, 2) / 7,
    "bias": np.array([[[0.5, -1.0]]], np.float32),
    "minus": np.array([-1], np.int64),
    "first": np.array([0], np.int64),
    "one": np.array([1], np.int64),
    "two": np.array([2], np.int64),
    "flat": np.array([0, -1], np.int64),
    "folded": np.array([-1, 2], np.int64),
    "pads": np.array([0, 1, 0, 0, 1, 0], np.int64),
    "picked": np.array([1, 0], np.int64),
}
"""x is [B, 4, 2]."""
ROWWISE: dict[str, tuple[list[str], dict[str, Any]]] = {
    "Relu": (["x"], {}),
    "Add": (["x", "bias"], {}),
    "Add table": (["x", "table"], {}),
    "Softmax": (["x"], {"axis": -1}),
    "Softmax of 1": (["x"], {"axis": 1}),
    "Transpose": (["x"], {"perm": [1, 0, 2]}),
    "ReduceSum": (["x", "one"], {"keepdims": 1}),
    "ReduceMean": (["x"], {"axes": [2], "keepdims": 0}),
    "Slice": (["x", "first", "two", "one"], {}),
    "Pad": (["x", "pads"], {}),
    "Gather": (["x", "picked"], {"axis": 1}),
    "Reshape": (["x", "flat"], {}),
    "Reshape joined": (["x", "folded"], {}),
    "Concat": (["x", "x"], {"axis": 2}),
    "MatMul": (["x", "square"], {}),
    "Flatten": (["x"], {"axis": 1}),
    "CumSum": (["x", "one"], {}),
    "Einsum": (["x", "x"], {"equation": "bij,bij->bi"}),
    "TopK": (["x", "one"], {"axis": 1}),
}
MIXING: dict[str, tuple[list[str], dict[str, Any]]] = {
    "ReduceMean": (["x"], {"axes": [0]}),
    "ReduceMax": (["x"], {}),
    "Softmax": (["x"], {"axis": 0}),
    "CumSum": (["x", "first"], {}),
    "Concat": (["x", "x"], {"axis": 0}),
    "Slice": (["x", "one", "two", "first"], {}),
    "Gather": (["x", "picked"], {"axis": 0}),
    "ReduceSum": (["x", "first"], {}),
    "Einsum": (["x", "x"], {"equation": "bij,bkl->ikl"}),
    "TopK": (["x", "one"], {"axis": 0}),
    "ArgMax": (["x"], {"axis": 0}),
    "Trilu": (["flipped"], {}),
    "NonZero": (["x"], {}),
    "DynamicQuantizeLinear": (["x"], {}),
    "LayerNormalization": (["x", "table"], {"axis": 0}),
}


def make_net(rows: int, operators: Operators, scale: float = 1.0) -> onnx.ModelProto:
    """Return a network of rows [rows, 4, 2] with an output for each operator."""
    nodes = [
        helper.make_node("Mul", ["given", "scale"], ["x"]),
        helper.make_node("Transpose", ["x"], ["flipped"], perm=[1, 0, 2]),
    ]
    outputs = []
    for number, (name, inputs, attributes) in enumerate(operators):
        kind = name.split()[0]
        made = [f"y{number}", *([f"i{number}"] if kind == "TopK" else [])]
        if kind == "DynamicQuantizeLinear":
            made += [f"s{number}", f"p{number}"]
        nodes.append(helper.make_node(kind, inputs, made, name=f"node{number}", **attributes))
        outputs.append(helper.make_empty_tensor_value_info(made[0]))
    constants = CONSTANTS | {"square": np.eye(2, dtype=np.float32) * 3, "scale": np.array(scale, np.float32)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("given", TensorProto.FLOAT, [rows, 4, 2])],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def prove(net: onnx.ModelProto, rows: int) -> Proven:
    return prove_rows(net, {"given": 0}, rows, f"B{rows}")


@given(st.lists(st.sampled_from(sorted(ROWWISE)), min_size=1, max_size=4), st.integers(2, 6), st.integers(7, 9))
@settings(max_examples=25, deadline=None)
def test_a_proven_axis_has_one_row_of_the_output_for_each_row(names: list[str], few: int, many: int) -> None:
    operators = [(name, *ROWWISE[name]) for name in names]
    whole, fewer = (prove_all(operators, rows) for rows in (many, few))
    compare_all([whole, fewer])
    inputs = np.random.default_rng(0).standard_normal((many, 4, 2), np.float32)
    want = run_onnx(make_net(many, operators).SerializeToString(), {"given": inputs}, "it")
    part = run_onnx(make_net(few, operators).SerializeToString(), {"given": inputs[:few]}, "it")
    for name, place in whole.outputs.items():
        rows = want[name].take(range(few * place.inner), place.axis)
        np.testing.assert_allclose(part[name], rows, rtol=1e-6, atol=1e-6)


def prove_all(operators: Operators, rows: int) -> Proven:
    """Prove a network, whose outputs with several elements of a row on one axis are unfolded."""
    net = make_net(rows, operators)
    joined = [number for number, (name, *_) in enumerate(operators) if name == "Reshape joined"]
    for number in joined:
        net.graph.initializer.append(numpy_helper.from_array(np.array([rows, 8]), f"apart{number}"))
        net.graph.node.append(helper.make_node("Reshape", [f"y{number}", f"apart{number}"], [f"u{number}"]))
        net.graph.output[number].name = f"u{number}"
    proven = prove(net, rows)
    places = {name.replace("u", "y"): place for name, place in proven.outputs.items()}
    for number in joined:
        places[f"y{number}"] = type(places[f"y{number}"])(0, 1, 4)
    return Proven(proven.name, proven.nodes, places)


@pytest.mark.parametrize("name", sorted(MIXING))
def test_an_operator_that_mixes_rows_is_named(name: str) -> None:
    with pytest.raises(Dependent, match=rf"^{name} node0: "):
        prove(make_net(3, [(name, *MIXING[name])]), 3)


def test_rows_on_an_axis_with_other_elements_are_refused() -> None:
    with pytest.raises(Dependent, match="the output y0 has the batch and other elements on one axis"):
        prove(make_net(3, [("Reshape", ["x", "folded"], {})]), 3)


def test_a_reshape_across_rows_is_named() -> None:
    net = make_net(3, [("Reshape", ["x", "across"], {})])
    net.graph.initializer.append(numpy_helper.from_array(np.array([4, 6]), "across"))
    with pytest.raises(Dependent, match="Reshape node0: it changes the shape"):
        prove(net, 3)


def test_a_constant_of_its_own_for_each_row_is_named() -> None:
    net = make_net(3, [("Add", ["x", "own"], {})])
    net.graph.initializer.append(numpy_helper.from_array(np.arange(3, dtype=np.float32).reshape(3, 1, 1), "own"))
    with pytest.raises(Dependent, match="Add node0: its constant own has a value of its own for each row"):
        prove(net, 3)


def test_a_constant_that_depends_on_the_length_of_the_batch_is_named() -> None:
    operators: Operators = [("Relu", ["x"], {})]
    with pytest.raises(Dependent, match="Mul that makes x: its constant scale has other values at B2 and B3"):
        compare_all([prove(make_net(rows, operators, 1 / rows), rows) for rows in (2, 3)])


def test_networks_of_other_operators_are_told() -> None:
    one, other = make_net(2, [("Relu", ["x"], {})]), make_net(3, [("Tanh", ["x"], {})])
    with pytest.raises(Dependent, match="the operators differ at B2 and B3"):
        compare_all([prove(one, 2), prove(other, 3)])
