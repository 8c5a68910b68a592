"""The error at each operator of a quantised network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_nets import INPUT, SIZE, write_float_net

from tvmbuild.base.operator_losses import OperatorLoss, read_losses
from tvmbuild.compiler.importing.reading import name_nodes
from tvmbuild.preparing import losses as module
from tvmbuild.preparing.losses import measure_losses
from tvmbuild.preparing.quantisers import by_nncf
from tvmbuild.preparing.quantisers.quantiser import Work
from tvmbuild.preparing.quantisers.table import QUANTISERS

RANDOM = np.random.RandomState(0)
SAMPLES: list[Mapping[str, np.ndarray]] = [{"x": RANDOM.uniform(-1, 1, (4, 8)).astype(np.float32)} for _ in range(2)]
WEIGHTS = RANDOM.uniform(-1, 1, (8, 8)).astype(np.float32)
STEP, WEIGHT_STEP = np.float32(1 / 100), np.float32(1 / 127)


def _constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def _make(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], output: str = "y") -> onnx.ModelProto:
    data = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "net", data, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _round(values: Any, step: np.float32, low: int, high: int) -> Any:
    return np.clip(np.round(values / step), low, high) * step


def _ratio(signal: Any, noisy: Any) -> float:
    return 20 * math.log10(np.linalg.norm(signal) / np.linalg.norm(signal - noisy))


def _make_pair(factor: np.ndarray | None = None) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return a product of a moved activation, and its QDQ model, whose weights are for inputs times ``factor``."""
    float_nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Transpose", ["r"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["w", "t"] if factor is None else ["r", "w"], ["y"], "product"),
    ]
    data = "r" if factor is None else "smoothed"
    smoothing = [] if factor is None else [helper.make_node("Mul", ["r", "factor"], ["smoothed"], "smooth")]
    nodes = [
        float_nodes[0],
        *smoothing,
        helper.make_node("QuantizeLinear", [data, "step", "zero"], ["q"], "q"),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["d"], "d"),
        helper.make_node("DequantizeLinear", ["wq", "wstep", "wzero"], ["wd"], "wd"),
        *([helper.make_node("Transpose", ["d"], ["t"], "turn", perm=[1, 0])] if factor is None else []),
        helper.make_node("MatMul", ["wd", "t"] if factor is None else ["d", "wd"], ["y"], "product"),
    ]
    weights = WEIGHTS if factor is None else WEIGHTS / factor.reshape(-1, 1)
    scale = WEIGHT_STEP * np.abs(weights).max()
    rounded = np.clip(np.round(weights / scale), -127, 127)
    constants = [
        _constant("step", STEP),
        _constant("zero", 128, np.uint8),
        _constant("wq", rounded, np.int8),
        _constant("wstep", scale),
        _constant("wzero", 0, np.int8),
        *([] if factor is None else [_constant("factor", factor)]),
    ]
    return _make(nodes, constants), _make(float_nodes, [_constant("w", WEIGHTS)])


def test_the_ratios_are_those_of_the_tensors() -> None:
    quantised, original = _make_pair()
    (loss,) = measure_losses(quantised, original, SAMPLES)
    data = np.maximum(np.concatenate([each["x"] for each in SAMPLES]), 0)
    scale = WEIGHT_STEP * np.abs(WEIGHTS).max()
    assert (loss.node, loss.operator) == ("product", "MatMul")
    assert loss.weight == pytest.approx(_ratio(WEIGHTS, _round(WEIGHTS, scale, -127, 127)), abs=0.1)
    assert loss.rounding == loss.whole == pytest.approx(_ratio(data, _round(data, STEP, -128, 127)), abs=0.1)


def test_smoothed_weights_are_compared_with_smoothed_ones() -> None:
    """SmoothQuant divides a product's weights by the factor of its activations, which is not an error."""
    factor = (2.0 ** RANDOM.randint(-3, 3, 8)).astype(np.float32)
    quantised, original = _make_pair(factor)
    (loss,) = measure_losses(quantised, original, SAMPLES)
    weights = WEIGHTS / factor.reshape(-1, 1)
    scale = WEIGHT_STEP * np.abs(weights).max()
    assert loss.weight == pytest.approx(_ratio(weights, _round(weights, scale, -127, 127)), abs=0.1)
    assert loss.whole == loss.rounding


@pytest.mark.parametrize("method", QUANTISERS)
def test_the_operator_with_a_bad_range_is_the_worst(method: str, tmp_path: Path, monkeypatch: Any) -> None:
    if method == "nncf":
        pytest.importorskip("nncf")
    net = onnx.load(write_float_net(tmp_path / "net.onnx"))
    name_nodes(net)
    samples = [{INPUT: RANDOM.uniform(-1, 1, SIZE).astype(np.float32)} for _ in range(4)]
    first = next(node.name for node in net.graph.node if INPUT in node.input)
    found = {}
    for outlier in (1.0, 500.0):
        calibration = [{INPUT: each[INPUT].copy()} for each in samples]
        calibration[0][INPUT].flat[0] = outlier
        model = onnx.ModelProto.FromString(net.SerializeToString())
        quantised = QUANTISERS[method](Work(model, calibration, ()))
        found[outlier] = measure_losses(quantised, net, samples)
    assert {each.operator for each in found[1.0]} >= {"Conv", "Gemm"}
    assert all(each.weight is not None for each in found[1.0] if each.operator in {"Conv", "Gemm"})
    assert all(each.worst > 20 for each in found[1.0]), found[1.0]
    worst = min(found[500.0], key=lambda each: each.worst)
    assert worst.node == first
    assert worst.worst < 15
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    assert measure_losses(quantised, net, samples) == found[500.0]


PRODUCTS = {
    "activation first": ("MatMul", {}, (5, 8), (8, 6), 0),
    "constant first": ("MatMul", {}, (8, 5), (6, 8), 1),
    "constant first, of a batch": ("MatMul", {}, (2, 8, 5), (6, 8), 1),
    "Gemm, turned constant": ("Gemm", {"transB": 1}, (5, 8), (6, 8), 0),
    "Gemm, turned activation": ("Gemm", {"transA": 1}, (8, 5), (8, 6), 0),
    "Gemm, constant first": ("Gemm", {}, (8, 5), (6, 8), 1),
    "Gemm, turned constant first": ("Gemm", {"transA": 1, "transB": 1}, (5, 8), (8, 6), 1),
}
"""The operator, its attributes, the shapes of activation and constant, and the place of the activation."""


def _make_product(spelling: str) -> onnx.ModelProto:
    operator, attributes, shape, weights, place = PRODUCTS[spelling]
    random = np.random.RandomState(1)
    inputs = ["r", "w"] if place == 0 else ["w", "r"]
    constants = [_constant("w", random.normal(0, 1, weights))]
    if spelling == "Gemm, turned constant":  # NNCF fails for biases of the other ones
        inputs.append("b")
        constants.append(_constant("b", random.normal(0, 1, 6)))
    nodes = [
        helper.make_node("Tanh", ["x"], ["r"], "tanh"),
        helper.make_node(operator, inputs, ["y"], "product", **attributes),
    ]
    data = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "net", data, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("spelling", PRODUCTS)
def test_smoothquant_is_undone_along_the_axis_that_a_product_sums(spelling: str, monkeypatch: Any) -> None:
    pytest.importorskip("nncf")
    monkeypatch.setattr(by_nncf, "is_transformer", lambda _: True)
    shape, random = PRODUCTS[spelling][2], np.random.RandomState(2)
    channels = np.linspace(0.01, 1, 8).reshape([8 if size == 8 else 1 for size in shape])  # else no need to smooth
    samples = [{"x": (random.uniform(-1, 1, shape) * channels).astype(np.float32)} for _ in range(4)]
    net = _make_product(spelling)
    quantised = QUANTISERS["nncf"](Work(onnx.ModelProto.FromString(net.SerializeToString()), samples, ()))
    assert any(node.op_type == "Mul" for node in quantised.graph.node)
    (loss,) = (each for each in measure_losses(quantised, net, samples) if each.node == "product")
    assert loss.weight is not None
    assert loss.weight > 35
    assert loss.rounding is not None
    assert loss.rounding > 25
    assert loss.whole == pytest.approx(loss.rounding, abs=0.1)


@pytest.mark.parametrize("method", QUANTISERS)
def test_an_operand_that_rounding_leaves_equal_has_no_loss(method: str) -> None:
    if method == "nncf":
        pytest.importorskip("nncf")
    random = np.random.RandomState(3)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "v"], ["y"], "second"),
    ]
    weights = {"w": random.normal(0, 1, (8, 8)), "b": np.zeros(8), "v": random.choice([-1.0, 1.0], (8, 3))}
    net = _make(nodes, [_constant(name, value) for name, value in weights.items()])
    model = onnx.ModelProto.FromString(net.SerializeToString())
    losses = {each.node: each for each in measure_losses(QUANTISERS[method](Work(model, SAMPLES, ())), net, SAMPLES)}
    assert losses["first"].weight is not None
    assert losses["first"].weight > 30  # not the 0 dB of two biases of zeros
    assert losses["second"].weight is None or losses["second"].weight > 100
    assert all(each.rounding is not None and each.rounding > 30 for each in losses.values())


def test_activations_of_zeros_have_no_loss() -> None:
    quantised, original = _make_pair()
    (loss,) = measure_losses(quantised, original, [{"x": np.full((4, 8), -1, np.float32)}])
    assert (loss.rounding, loss.whole) == (None, None)
    assert loss.weight is not None


def test_the_worst_come_first_and_those_without_loss_last() -> None:
    losses = [
        OperatorLoss("exact", "Add", None, None, 20.0),
        OperatorLoss("good", "Conv", 50.0, 40.0, 30.0),
        OperatorLoss("bad", "Conv", 12.0, 40.0, 30.0),
    ]
    assert [each.node for each in read_losses({"losses": [asdict(each) for each in losses]})] == [
        "bad",
        "good",
        "exact",
    ]
    assert read_losses({}) == ()
