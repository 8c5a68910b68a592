"""Networks with attention: sums and scores with outliers stay in floats, products with weights become integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.preparing.keep.groups import find_dequantised
from tvmbuild.preparing.quantise import FloatModel, quantise
from tvmbuild.preparing.quantisers import by_nncf, by_onnxruntime
from tvmbuild.preparing.quantisers.attention import is_transformer, list_products_of_activations
from tvmbuild.preparing.reference import make_references, run_onnx

LENGTH, WIDTH = 16, 32
CALIBRATION = Calibration("inputs", ("samples.npz",))
OUTLIER = 3
"""The channel of the residual sum that is far larger than the others, as in trained transformers."""


def make_block(*, scale: bool = True) -> onnx.ModelProto:
    """Return a transformer's block of one head behind a LayerNormalization; without ``scale`` it has no softmax."""
    random = np.random.RandomState(0)
    weights: dict[str, np.ndarray[Any, Any]] = {
        name: random.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32) for name in ("q", "k", "v", "o", "f")
    }
    weights["o"][:, OUTLIER] *= 20
    weights["one"], weights["zero"] = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "one", "zero"], ["n"], "norm"),
        *(helper.make_node("MatMul", ["n", part], [f"{part}n"], part) for part in "qkv"),
        helper.make_node("Transpose", ["kn"], ["kt"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["qn", "kt"], ["s"], "scores"),
        helper.make_node("Softmax" if scale else "Relu", ["s"], ["p"], "weights"),
        helper.make_node("MatMul", ["p", "vn"], ["h"], "heads"),
        helper.make_node("MatMul", ["h", "o"], ["a"], "out"),
        helper.make_node("Add", ["x", "a"], ["r"], "residual"),
        helper.make_node("LayerNormalization", ["r", "one", "zero"], ["m"], "second"),
        helper.make_node("MatMul", ["m", "f"], ["y"], "last"),
    ]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LENGTH, WIDTH]) for name in "xy"]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "block", tensors[:1], tensors[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


SAMPLES = [
    {"x": np.random.RandomState(seed).normal(0, 1, (1, LENGTH, WIDTH)).astype(np.float32)} for seed in range(1, 9)
]


def _put_after_the_softmax(nodes: list[onnx.NodeProto], **constants: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """Return the block with nodes that make the values ``t`` of the softmax's results ``p``."""
    block = make_block()
    block.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    place = next(index for index, node in enumerate(block.graph.node) if node.name == "heads")
    block.graph.node[place].input[0] = "t"
    for node in reversed(nodes):
        block.graph.node.insert(place, node)
    onnx.checker.check_model(block)
    return block


def test_attention_is_a_product_after_a_softmax() -> None:
    assert is_transformer(make_block())
    assert not is_transformer(make_block(scale=False))


def test_the_softmax_is_found_through_every_operand() -> None:
    is_nan = [
        helper.make_node("IsNaN", ["p"], ["n0"], "is_nan"),
        helper.make_node("Where", ["n0", "none", "p"], ["t"], "where"),
    ]
    none = np.zeros((), np.float32)
    assert is_transformer(_put_after_the_softmax(is_nan, none=none))
    masked = [
        helper.make_node("Cast", ["x"], ["c"], "computed", to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["c"], ["mask"], "mask"),
        helper.make_node("Mul", ["mask", "p"], ["t"], "masked"),
    ]
    assert is_transformer(_put_after_the_softmax(masked))
    other = [helper.make_node("Mul", ["mask", "s"], ["t"], "masked")]
    assert not is_transformer(_put_after_the_softmax([*masked[:2], *other]))


def test_the_mean_of_a_distribution_is_no_attention() -> None:
    """The boxes of GFL and NanoDet are softmaxes times the numbers of their bins."""
    block = make_block(scale=False)
    bins = numpy_helper.from_array(np.arange(WIDTH, dtype=np.float32), "bins")
    block.graph.initializer.append(bins)
    block.graph.node.extend(
        [
            helper.make_node("Softmax", ["y"], ["d"], "distribution"),
            helper.make_node("MatMul", ["d", "bins"], ["mean"], "mean"),
        ]
    )
    assert not is_transformer(block)
    assert list_products_of_activations(block) == []


def test_a_convolutional_network_with_one_attention_is_no_transformer() -> None:
    block = make_block()
    assert list_products_of_activations(block) == ["scores", "heads"]
    for index in range(80):
        block.graph.node.add(op_type="Conv", name=f"conv{index}", input=["y", "kernel"], output=[f"c{index}"])
    assert not is_transformer(block)
    assert list_products_of_activations(block) == []


def _quantise(method: Any) -> onnx.ModelProto:
    data = make_block().SerializeToString()
    reference = make_references(data, SAMPLES[:1], "fp32", "the block")[0]
    made = quantise(FloatModel(data, reference, "block"), Quantize(CALIBRATION, method), SAMPLES)
    return onnx.load_from_string(made.model)


def _measure_error(model: onnx.ModelProto) -> float:
    wanted, got = (run_onnx(each.SerializeToString(), SAMPLES[0], "the block")["y"] for each in (make_block(), model))
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(("method", "module"), [("nncf", by_nncf), ("onnxruntime", by_onnxruntime)])
def test_what_has_outliers_stays_in_floats(method: str, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if method == "nncf":
        pytest.importorskip("nncf")
    quantised = _quantise(method)
    integers = find_dequantised(quantised)
    assert {"q", "k", "v", "last"} <= integers
    assert not integers & {"weights", "heads", "second"}
    monkeypatch.setattr(module, "is_transformer", lambda _: False)
    assert _measure_error(quantised) < 0.75 * _measure_error(_quantise(method))
