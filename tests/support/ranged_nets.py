"""A network whose batch is on several axes, and its package with a range, built by the real stages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from made_once import make_once
from onnx import TensorProto, helper, numpy_helper
from sized_nets import SizedProject, make_project

MODEL = """\
models:
  net:
    source: {path: net.onnx}
    inputs: {x: {shape: [B, 16]}, state: {shape: [2, B, 3]}, gain: {shape: [4]}}
    sizes: {B: {range: 1..40, build: [1, 3, 8]}}
"""


def make_stateful_net() -> onnx.ModelProto:
    """Return a network with the batch on different axes: x, state, gain → y [B, 4], next [2, B, 3]."""
    random = np.random.RandomState(0)
    weights = {
        "w": random.uniform(-1, 1, (16, 4)),
        "u": random.uniform(-1, 1, (3, 4)),
        "v": random.uniform(-1, 1, (4, 3)),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("MatMul", ["state", "u"], ["su"]),
        helper.make_node("ReduceSum", ["su", "first"], ["s"], keepdims=0),
        helper.make_node("Add", ["xw", "s"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["t"]),
        helper.make_node("Mul", ["t", "gain"], ["y"]),
        helper.make_node("MatMul", ["y", "v"], ["yv"]),
        helper.make_node("Add", ["state", "yv"], ["next"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 16]),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, "B", 3]),
            helper.make_tensor_value_info("gain", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 4]),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, "B", 3]),
        ],
        [
            *(numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()),
            numpy_helper.from_array(np.array([0]), "first"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def draw(batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {"x": (batch, 16), "state": (2, batch, 3), "gain": (4,)}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def build_ranged_project() -> SizedProject:
    """Return a project whose package is built, compared and timed. Equal ones are built once; do not write to it."""

    def build(folder: Path) -> None:
        done = make_project(folder, MODEL, make_stateful_net()).run()
        assert done.returncode == 0, done.stdout + done.stderr

    return SizedProject(make_once("project with a range", build))


def build_ranged_package(target: str, targets: str) -> Path:
    """Return the package for a target of the text of targets.yaml. Equal ones are built once; do not write to it."""

    def build(folder: Path) -> None:
        project = make_project(folder, MODEL, make_stateful_net())
        (folder / "targets.yaml").write_text(targets)
        done = project.run("compile")
        assert done.returncode == 0, done.stdout + done.stderr

    return SizedProject(make_once(("package with a range", targets), build), target).package
