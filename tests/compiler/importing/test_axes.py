"""Axes of every operator after a convolution: the fast layout stays, from whichever end they count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from quantized_nodes import run_onnx

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
SHAPE = (1, 16, 6, 6)
RANK = len(SHAPE)
Weights: TypeAlias = dict[str, np.ndarray]
Make: TypeAlias = Callable[[int, str, Weights], list[onnx.NodeProto]]
"""A maker: axis, prefix for names, and weights to extend → nodes that start from c; the last one makes the prefix."""


def by_attribute(operator: str, *constants: np.ndarray, **more: Any) -> Make:
    def make(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
        names = [f"{name}.{place}" for place in range(len(constants))]
        weights |= dict(zip(names, constants, strict=True))
        outputs = [name] + [f"{name}.more"] * (operator == "TopK")
        return [helper.make_node(operator, ["c", *names], outputs, axis=axis, **more)]

    return make


def by_input(operator: str, *, scalar: bool = False, **more: Any) -> Make:
    def make(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
        weights[f"{name}.axes"] = np.array(axis if scalar else [axis], np.int64)
        return [helper.make_node(operator, ["c", f"{name}.axes"], [name], **more)]

    return make


def squeeze(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    """Take the mean over the axis, then remove the axis."""
    (mean,) = by_input("ReduceMean")(axis, f"{name}.mean", weights)
    weights[f"{name}.axes"] = np.array([axis], np.int64)
    return [mean, helper.make_node("Squeeze", [f"{name}.mean", f"{name}.axes"], [name])]


def concat(axis: int, name: str, _weights: Weights) -> list[onnx.NodeProto]:
    return [helper.make_node("Concat", ["c", "c"], [name], axis=axis)]


def split(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    half = SHAPE[axis] // 2
    if not half:
        return [helper.make_node("Neg", ["c"], [name])]
    weights[f"{name}.sizes"] = np.array([half, SHAPE[axis] - half], np.int64)
    return [helper.make_node("Split", ["c", f"{name}.sizes"], [name, f"{name}.more"], axis=axis)]


def slices(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    bounds = [f"{name}.{each}" for each in ("from", "to", "axes")]
    weights |= dict(zip(bounds, (np.array([each], np.int64) for each in (0, -1, axis)), strict=True))
    weights[bounds[1]] = np.array([max(SHAPE[axis] // 2, 1)], np.int64)
    return [helper.make_node("Slice", ["c", *bounds], [name])]


def pad(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    weights[f"{name}.pads"], weights[f"{name}.axes"] = np.array([1, 2], np.int64), np.array([axis], np.int64)
    return [helper.make_node("Pad", ["c", f"{name}.pads", "", f"{name}.axes"], [name])]


def one_hot(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    weights[f"{name}.depth"], weights[f"{name}.values"] = np.array(3, np.int64), np.array([0, 1], np.float32)
    cast = helper.make_node("Cast", ["c"], [f"{name}.int"], to=TensorProto.INT64)
    return [cast, helper.make_node("OneHot", [f"{name}.int", f"{name}.depth", f"{name}.values"], [name], axis=axis)]


def layer_normalization(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    weights[f"{name}.scale"] = np.ones(SHAPE[axis % RANK :], np.float32)
    return [helper.make_node("LayerNormalization", ["c", f"{name}.scale"], [name], axis=axis)]


def mean_variance_normalization(axis: int, name: str, _weights: Weights) -> list[onnx.NodeProto]:
    """Normalise along the axis and another one: the first axis alone has one element, whose variance is 0."""
    other = -1 if axis % RANK < RANK - 1 else -2
    return [helper.make_node("MeanVarianceNormalization", ["c"], [name], axes=[axis, other])]


def scatter(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    weights[f"{name}.places"], weights[f"{name}.new"] = np.zeros([1] * RANK, np.int64), np.ones([1] * RANK, np.float32)
    return [helper.make_node("ScatterElements", ["c", f"{name}.places", f"{name}.new"], [name], axis=axis)]


def quantize(axis: int, name: str, weights: Weights) -> list[onnx.NodeProto]:
    """Quantise along the axis and back."""
    weights[f"{name}.s"] = np.linspace(0.01, 0.1, SHAPE[axis], dtype=np.float32)
    weights[f"{name}.z"] = np.zeros(SHAPE[axis], np.uint8)
    after = [f"{name}.s", f"{name}.z"]
    return [
        helper.make_node("QuantizeLinear", ["c", *after], [f"{name}.q"], axis=axis),
        helper.make_node("DequantizeLinear", [f"{name}.q", *after], [name], axis=axis),
    ]


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
ALL = range(-RANK, RANK)
MAKERS: dict[str, tuple[Make, Sequence[int]]] = {
    **{
        f"Reduce{name}-{keep}": (by_input(f"Reduce{name}", keepdims=keep), ALL)
        for name in REDUCTIONS
        for keep in (0, 1)
    },
    **{f"{name}-{keep}": (by_attribute(name, keepdims=keep), ALL) for name in ("ArgMax", "ArgMin") for keep in (0, 1)},
    **{name: (by_attribute(name), ALL) for name in ("Hardmax", "LogSoftmax", "LpNormalization", "Softmax")},
    "Concat": (concat, ALL),
    "CumSum": (by_input("CumSum", scalar=True), ALL),
    "Flatten": (by_attribute("Flatten"), range(-RANK, RANK + 1)),
    "Gather": (by_attribute("Gather", np.array(0)), ALL),
    "Gather-vector": (by_attribute("Gather", np.array([0, 0])), ALL),
    "GatherElements": (by_attribute("GatherElements", np.zeros([1] * RANK, np.int64)), ALL),
    "LayerNormalization": (layer_normalization, ALL),
    "MeanVarianceNormalization": (mean_variance_normalization, ALL),
    "OneHot": (one_hot, range(-RANK - 1, RANK + 1)),
    "Pad": (pad, ALL),
    "QuantizeLinear": (quantize, ALL),
    "ScatterElements": (scatter, ALL),
    "Slice": (slices, ALL),
    "Split": (split, ALL),
    "Squeeze": (squeeze, ALL),
    "TopK": (by_attribute("TopK", np.array([1])), ALL),
    "Unsqueeze": (by_input("Unsqueeze"), range(-RANK - 1, RANK + 1)),
}


def make_model(operator: str) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model with the operator along each axis of a convolution, each as an output, and the outputs' names."""
    make, axes = MAKERS[operator]
    random = np.random.default_rng(0)
    weights: Weights = {"w": random.uniform(-0.1, 0.1, (16, 16, 3, 3)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])]
    names = [f"y{index}" for index in range(len(axes))]
    for axis, name in zip(axes, names, strict=True):
        nodes += make(axis, name, weights)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph(nodes, "net", [x], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), names


@pytest.mark.sampled(15)
@pytest.mark.parametrize("operator", MAKERS)
def test_a_layout_is_kept(operator: str, cpu: tvm.target.Target) -> None:
    model, _ = make_model(operator)
    assert lower(import_model(model, "net"), cpu).notes == ()


@pytest.mark.nightly
@pytest.mark.parametrize("operator", MAKERS)
def test_numbers(operator: str, cpu: tvm.target.Target) -> None:
    model, names = make_model(operator)
    data = {"x": np.random.default_rng(1).uniform(0.1, 1, SHAPE).astype(np.float32)}
    got = build_here(lower(import_model(model, "net"), cpu), cpu)(data)
    for name, want in zip(names, run_onnx(model, data), strict=True):
        assert (got[name].dtype, got[name].shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)
