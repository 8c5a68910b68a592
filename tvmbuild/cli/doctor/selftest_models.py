"""Small models, one for each class of kernels that the self-test computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17
_TYPES = {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}


@dataclass(frozen=True)
class Case:
    """A model with its inputs."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]


def make_cases() -> Iterator[Case]:
    """Yield the cases. Their weights and inputs are the same each time."""
    random = np.random.default_rng(0)

    def make(name: str, nodes: list[onnx.NodeProto], dtype: str = "float32", **weights: np.ndarray) -> Case:
        shape = (1, 16, 20, 20)
        data = random.random(shape, np.float32) if dtype == "float32" else random.integers(-50, 50, shape)
        return Case(name, _make_model(nodes, dtype, shape, weights), {"x": data.astype(dtype)})

    def weight(*shape: int) -> np.ndarray:
        drawn: np.ndarray = random.standard_normal(shape).astype(np.float32)
        return np.asarray(drawn / np.sqrt(np.prod(shape[1:])), np.float32)

    node = helper.make_node
    scales = np.array([1, 1, 2, 2], np.float32)
    yield make("convolution 3x3", [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], w=weight(24, 16, 3, 3))
    yield make("convolution 1x1", [node("Conv", ["x", "w", "b"], ["a"]), node("Relu", ["a"], ["y"])],
               w=weight(32, 16, 1, 1), b=weight(32))  # fmt: skip
    yield make(
        "convolution by channel", [node("Conv", ["x", "w"], ["y"], group=16, strides=[2, 2])], w=weight(16, 1, 3, 3)
    )
    yield make(
        "transposed convolution", [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])], w=weight(16, 8, 3, 3)
    )
    yield make("product of matrices", [node("MatMul", ["x", "w"], ["y"])], w=weight(20, 48))
    yield make("largest of a window", [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])])
    yield make("mean of a window", [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])])
    yield make("mean of all", [node("GlobalAveragePool", ["x"], ["y"])])
    yield make("softmax", [node("Softmax", ["x"], ["y"], axis=-1)])
    yield make("normalisation", [node("LayerNormalization", ["x", "w"], ["y"])], w=weight(20))
    yield make("resize", [node("Resize", ["x", "", "s"], ["y"], mode="linear")], s=scales)
    yield make("transpose and concatenate", [node("Transpose", ["x"], ["a"], perm=[0, 1, 3, 2]),
                                             node("Concat", ["x", "a"], ["y"], axis=1)])  # fmt: skip
    yield make("index of the largest", [node("ArgMax", ["x"], ["y"], axis=1)])
    for name in ("Exp", "Log", "Sqrt", "Tanh", "Erf", "Sigmoid", "Sin", "Cos", "Atan"):
        yield make(name.lower(), [node(name, ["x"], ["y"])])
    yield make("pow", [node("Pow", ["x", "e"], ["y"])], e=np.float32(2.5).reshape(1))
    yield make("choice by comparison", [node("Greater", ["x", "h"], ["c"]), node("Where", ["c", "x", "h"], ["y"])],
               h=np.float32(0.5).reshape(1))  # fmt: skip
    yield make("64-bit integers", [node("Mul", ["x", "k"], ["a"]), node("Mod", ["a", "m"], ["y"])], "int64",
               k=np.array([123456789], np.int64), m=np.array([1000], np.int64))  # fmt: skip


def _make_model(
    nodes: list[onnx.NodeProto], dtype: str, shape: tuple[int, ...], weights: dict[str, np.ndarray]
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", _TYPES[dtype], shape)]
    outputs = [helper.make_value_info("y", onnx.TypeProto())]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "case", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(inferred)
    return inferred
