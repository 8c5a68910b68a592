"""Parts of a model: their inputs, outputs and numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.debugging.errors import ROUNDINGS, compute_places, measure_error, measure_rounding
from tvmbuild.debugging.places import Places
from tvmbuild.preparing.reference import run_onnx

INPUTS = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}


def make_model() -> onnx.ModelProto:
    """Return a model with a constant node, a skip connection, indices, and a node that nothing needs."""
    weights = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    nodes = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2.5))),
        helper.make_node("Exp", ["two"], ["e"]),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Neg", ["a"], ["unread"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Mul", ["b", "e"], ["c"]),
        helper.make_node("Add", ["c", "a"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["i"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 4))],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("i", 7))],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_places_are_what_depends_on_the_input_and_is_needed() -> None:
    assert list(Places(make_model()).producers) == ["a", "b", "c", "y", "i"]


def test_a_part_computes_what_the_whole_does() -> None:
    places = Places(make_model())
    values = compute_places(places, INPUTS, "net")
    for count, ends in enumerate((["a"], ["a", "b"], ["a", "c"], ["y"]), start=1):
        part = places.cut_after(count, values)
        assert (list(part.inputs), list(part.outputs)) == (["x"], ends)
        got = run_onnx(part.model, INPUTS, "part")
        assert all(np.array_equal(got[name], values[name]) for name in ends)


def test_a_node_alone_reads_the_original_numbers() -> None:
    places = Places(make_model())
    values = compute_places(places, INPUTS, "net")
    part = places.extract([3], ["y"], values)
    assert (part.inputs, part.nodes) == (("c", "a"), (3,))
    assert np.array_equal(run_onnx(part.model, {name: values[name] for name in part.inputs}, "part")["y"], values["y"])


def test_rounding_moves_every_place_by_little() -> None:
    places = Places(make_model())
    values = compute_places(places, INPUTS, "net")
    moved = measure_rounding(places, values, ROUNDINGS["fp32"], "net")
    assert all(5e-8 < moved[name] < 1e-6 for name in "abcy")
    assert moved["i"] >= 0.02 / ROUNDINGS["fp32"].limit


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.nan], [1.0, 4.0], np.inf),
        ([np.inf, 3.0], [np.inf, 4.0], 0.25),
        ([0.5, 0.0], [0.0, 0.0], 0.5),
        ([1.0], [1.0, 4.0], np.inf),
    ],
)
def test_an_error_is_a_share_of_the_largest_value(got: list[float], want: list[float], error: float) -> None:
    assert measure_error(np.array(got, np.float32), np.array(want, np.float32)) == error


def test_the_error_of_indices_is_the_share_that_differs() -> None:
    assert measure_error(np.array([1, 900, 3, 4]), np.array([1, 2, 3, 4])) == 0.25
    assert measure_error(np.array([1, 100], np.uint8), np.array([1, 90], np.uint8)) == pytest.approx(10 / 90)
