"""The tolerance for a quantised model's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from quantised_graphs import Network

from tvmbuild.base.specs import Tolerance
from tvmbuild.preparing.onnx_graph import find_precision
from tvmbuild.preparing.reference import SPREADS, Reference, make_references, read_reference, shake, write_reference
from tvmbuild.preparing.simplify import simplify


def make_network() -> bytes:
    """Return a network in which many sums lie half-way between two steps, so that floats fall on either side."""
    net = Network(np.random.RandomState(0))
    values = np.random.RandomState(1).randint(-3, 4, (8, 8, 1, 1)).astype(np.int8)
    weights = net.add("DequantizeLinear", [net.keep(values), net.keep(np.float32(0.1)), net.keep(np.int8(0))])
    return net.finish(net.round(net.add("Conv", [net.round("x", 0.1, 128), weights]), 0.02, 128), (1, 8, 9, 9))


def test_a_quantised_model_is_told_by_its_operators() -> None:
    model = onnx.load_from_string(make_network())
    assert find_precision(model) == "int8"
    for kind in ("QLinearConv", "DynamicQuantizeLinear", "QGemm"):
        graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"])], "g", [], [])
        assert find_precision(helper.make_model(graph)) == "int8"
    weights = onnx.numpy_helper.from_array(np.zeros(4, np.int8), "w")
    graph = helper.make_graph([helper.make_node("DequantizeLinear", ["w", "s"], ["y"])], "g", [], [], [weights])
    assert find_precision(helper.make_model(graph)) == "fp32"


def test_what_the_model_leaves_open_is_measured_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(make_network())
    reference = simplify(path).reference
    assert reference.precision == "int8"
    assert 0 < reference.spread < 0.1
    write_reference(tmp_path / "reference.npz", reference)
    assert read_reference(tmp_path / "reference.npz").spread == reference.spread
    assert reference.allow(Tolerance()).of_largest == max(5 / 255, SPREADS * reference.spread)
    assert reference.allow(Tolerance(of_largest=0.5)).of_largest == 0.5


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_others_are_asked_for_what_they_were(precision: str) -> None:
    assert Reference({}, {}, precision).allow(Tolerance()) == Tolerance().at_least(precision)


def test_a_file_without_a_spread_has_none(tmp_path: Path) -> None:
    write_reference(tmp_path / "r.npz", Reference({}, {"y": np.zeros(1, np.float32)}))
    assert read_reference(tmp_path / "r.npz").spread == 0.0


def test_a_rounding_error_in_the_sums_is_counted_where_both_ways_are_one() -> None:
    """A Mul keeps ONNX Runtime from computing in integers; its optimised numbers are then equal."""
    net = Network(np.random.RandomState(0))
    values = np.random.RandomState(1).randint(-3, 4, (8, 8, 1, 1)).astype(np.int8)
    weights = net.add("DequantizeLinear", [net.keep(values), net.keep(np.float32(0.1)), net.keep(np.int8(0))])
    product = net.add("Mul", [net.add("Conv", [net.round("x", 0.1, 128), weights]), net.keep(np.float32(1))])
    model = net.finish(net.round(product, 0.02, 128), (1, 8, 9, 9))
    feed = {"x": np.random.RandomState(3).uniform(-1, 1, (1, 8, 9, 9)).astype(np.float32)}
    (reference,) = make_references(model, [feed], "int8", "it")
    assert 0 < reference.spread < 0.1
    (floats,) = make_references(model, [feed], "fp32", "it")
    assert floats.spread == 0


def test_a_shaken_model_is_the_same_but_for_a_rounding_error() -> None:
    model = make_network()
    before, after = (
        {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load_from_string(each).graph.initializer}
        for each in (model, shake(model))
    )
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    (scale,) = changed
    assert before[scale] == np.float32(0.1)
    assert after[scale] == pytest.approx(0.1, rel=1e-6)


def test_where_data_are_rounded_as_they_come_their_products_scale_is_shaken() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["data", "step", "zero"]),
            helper.make_node("MatMulInteger", ["data", "w", "zero"], ["sums"]),
            helper.make_node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["step", "scale"], ["both"]),
            helper.make_node("Mul", ["floats", "both"], ["product"]),
            helper.make_node("Mul", ["product", "other"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in (
                ("w", np.ones((4, 3), np.int8)),
                ("scale", np.float32(0.25)),
                ("other", np.float32(3)),
            )
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    kept = {each.name: each for each in onnx.load_from_string(shake(model.SerializeToString())).graph.initializer}
    values = {name: float(onnx.numpy_helper.to_array(kept[name])) for name in ("scale", "other")}
    assert values["other"] == 3
    assert 0 < abs(values["scale"] / 0.25 - 1) < 1e-6


def test_sums_of_integer_operators_are_shaken_too() -> None:
    """QLinearAdd may round sums half-way between two steps either way."""
    steps = {"scale": np.float32(0.1), "zero": np.uint8(128), "half": np.float32(0.2)}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["a"]),
            helper.make_node(
                "QLinearAdd",
                ["a", "scale", "zero", "a", "half", "zero", "half", "zero"],
                ["b"],
                domain="com.microsoft",
            ),
            helper.make_node("DequantizeLinear", ["b", "half", "zero"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in steps.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    feed = {"x": (np.arange(64) / 10 - 3).astype(np.float32)}
    (reference,) = make_references(model, [feed], "int8", "it")
    assert reference.spread > 0
