"""A small network of operators that onnxruntime.quantization knows, quantised in either format."""

from __future__ import annotations

import contextlib
import io
import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT, SIZE = "x", (1, 3, 16, 16)


@dataclass
class Net:
    """A growing graph of floats."""

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def weight(self, *shape: int) -> str:
        """Add random weights whose sums stay near one."""
        deviation = max(1, math.prod(shape[1:])) ** -0.5
        return self.constant(self.random.normal(0, deviation, shape).astype(np.float32))

    def constant(self, values: Any) -> str:
        """Add a constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values)
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], f"n{len(self.nodes)}", **attributes))
        return name


def write_float_net(path: Path, seed: int = 0) -> Path:
    """Write a classifier with a depthwise block, a gate, pools, a resize and matrices; logits and probabilities."""
    net = Net(np.random.default_rng(seed))
    first = net.add("Conv", INPUT, net.weight(16, 3, 3, 3), net.weight(16), pads=[1] * 4, strides=[2, 2])
    x = net.add("Relu", first)
    deep = net.add("Conv", x, net.weight(16, 1, 3, 3), net.weight(16), pads=[1] * 4, group=16)
    deep = net.add("Clip", deep, net.constant(np.float32(0)), net.constant(np.float32(6)))
    x = net.add("Add", x, net.add("Conv", deep, net.weight(16, 16, 1, 1)))
    gate = net.add("Conv", net.add("GlobalAveragePool", x), net.weight(16, 16, 1, 1), net.weight(16))
    x = net.add("LeakyRelu", net.add("Mul", x, net.add("Sigmoid", gate)), alpha=0.1)
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = net.add("Concat", net.add("MaxPool", x, **window), net.add("AveragePool", x, **window), axis=1)
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    x = net.add("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    x = net.add("Pad", x, net.constant([0, 0, 1, 1, 0, 0, 1, 1]))
    x = net.add("MatMul", net.add("Transpose", x, perm=[0, 2, 3, 1]), net.weight(32, 8))
    x = net.add("GlobalAveragePool", net.add("Transpose", x, perm=[0, 3, 1, 2]))
    logits = net.add("Gemm", net.add("Flatten", x), net.weight(10, 8), net.weight(10), transB=1)
    names = [logits, net.add("Softmax", logits, axis=-1)]
    graph = helper.make_graph(
        net.nodes,
        "net",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, SIZE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 10]) for name in names],
        [numpy_helper.from_array(values, name) for name, values in net.weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def quantize_net(source: Path, path: Path, **options: Any) -> Path:
    """Write the network, quantised with ranges from random inputs, in silence."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    random = np.random.default_rng(1)
    (given,) = onnx.load(source).graph.input
    shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    feeds = iter([{given.name: random.uniform(-1, 1, shape).astype(np.float32)} for _ in range(4)])

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(feeds, None)

    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            quantize_static(str(source), str(path), Reader(), **options)
    finally:
        logging.disable(logging.NOTSET)
    return path


def find_steps(model: onnx.ModelProto) -> list[float]:
    """Return the scale of each output's dequantisation."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    made_by = {node.output[0]: node for node in model.graph.node}
    return [float(known[made_by[value.name].input[1]]) for value in model.graph.output]
