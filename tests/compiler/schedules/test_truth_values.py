"""Comparisons as numbers before exp, tanh, erf and sigmoid: TVM alone cannot generate code for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import NodeProto, TensorProto, helper

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
SHAPE = (1, 16, 9, 10)
make = helper.make_node
THRESHOLD = make("ThresholdedRelu", ["n"], ["s"], alpha=0.2)
GREATER, LESS = make("Greater", ["x", "c"], ["g"]), make("Less", ["n", "c"], ["l"])
AS_FLOAT = {"to": TensorProto.FLOAT}

CHAINS: dict[str, list[NodeProto]] = {
    "threshold": [make("Relu", ["x"], ["n"]), THRESHOLD, make("Sigmoid", ["s"], ["y"])],
    "never above it": [make("Relu", ["x"], ["r"]), make("Neg", ["r"], ["n"]), THRESHOLD, make("Sigmoid", ["s"], ["y"])],
    "cast": [
        GREATER,
        make("Cast", ["g"], ["a"], **AS_FLOAT),
        make("Sub", ["x", "a"], ["s"]),
        make("Tanh", ["s"], ["y"]),
    ],
    "both": [
        *(GREATER, make("Neg", ["x"], ["n"]), LESS, make("And", ["g", "l"], ["b"])),
        *(make("Cast", ["b"], ["a"], **AS_FLOAT), make("Mul", ["x", "a"], ["s"]), make("Exp", ["s"], ["y"])),
    ],
    "by an integer": [
        *(GREATER, make("Not", ["g"], ["b"]), make("Cast", ["b"], ["i"], to=TensorProto.INT32)),
        *(make("Cast", ["i"], ["a"], **AS_FLOAT), make("Sub", ["x", "a"], ["s"]), make("Erf", ["s"], ["y"])),
    ],
    "after a convolution": [
        *(make("Conv", ["x", "w"], ["n"], pads=[1] * 4), THRESHOLD, make("Sigmoid", ["s"], ["y"])),
    ],
    "along rows": [
        *(GREATER, make("Cast", ["g"], ["a"], **AS_FLOAT), make("Mul", ["x", "a"], ["s"])),
        make("Softmax", ["s"], ["y"], axis=-1),
    ],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_comparison_is_a_number(chain: str, save_model: Callable[..., Path], cpu: tvm.target.Target) -> None:
    random = np.random.RandomState(8)
    weights = {"c": np.asarray(0.2, np.float32), "w": random.uniform(-0.2, 0.2, (16, 16, 3, 3)).astype(np.float32)}
    used = {name for node in CHAINS[chain] for name in node.input}
    path = save_model(CHAINS[chain], {name: value for name, value in weights.items() if name in used}, SHAPE)
    data = random.uniform(-1, 1, SHAPE).astype(np.float32)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})[0]
    got = build_here(lower(import_onnx(path), cpu), cpu)({"x": data})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
