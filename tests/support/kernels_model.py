"""A model for profiles of devices: functions that are called twice, and one function of several kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx_graphs import node


def write_model_of_kernels(folder: Path) -> Path:
    """Write a model of an input x, 8 x 64, which calls two functions twice, and one that launches two kernels."""
    random = np.random.RandomState(0)
    weights = {name: random.uniform(-1, 1, (64, 64)).astype("float32") for name in ("v", "w")}
    weights |= {"rows": np.zeros((1, 64), np.int64), "values": np.ones((1, 64), "float32"), "k": np.array([4])}
    make = onnx.helper
    last = make.make_node("TopK", ["e", "k"], ["y", "z"])
    graph = make.make_graph(
        [
            node("MatMul", "x", "v", out="a"),
            node("MatMul", "a", "w", out="b"),
            node("Softmax", "b", out="c"),
            node("Softmax", "c", out="d"),
            node("ScatterElements", "d", "rows", "values", out="e"),
            last,
        ],
        "kernels",
        [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (8, 64))],
        [
            make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (8, 4)),
            make.make_tensor_value_info("z", onnx.TensorProto.INT64, (8, 4)),
        ],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), folder / "net.onnx")
    return folder / "net.onnx"
