"""A network that quantisation harms at one place, and samples for it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.RandomState(0)
SAMPLES = [{"x": RANDOM.uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32)} for _ in range(4)]


def make_net() -> onnx.ModelProto:
    """Return three convolutions; the second's result has a few channels of far larger values."""
    random = np.random.RandomState(1)
    weights = {f"w{index}": random.normal(0, 0.3, (8, 3 if index == 0 else 8, 3, 3)) for index in range(3)}
    weights |= {f"b{index}": random.normal(0, 0.1, 8) for index in range(3)}
    weights["factor"] = np.array([400.0, *[0.02] * 7]).reshape(1, 8, 1, 1)
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "first_relu"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["c1", "factor"], ["m1"], "uneven"),
        helper.make_node("Sigmoid", ["m1"], ["s1"], "second_sigmoid"),
        helper.make_node("Conv", ["s1", "w2", "b2"], ["y"], "third", pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 16, 16])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
