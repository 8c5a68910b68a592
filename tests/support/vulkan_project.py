"""Projects with a target for lavapipe, and one matrix product, the smallest model for all stages of a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from doit_project import DoitProject, write_project
from onnx import TensorProto, helper, numpy_helper

MODELS = "models:\n  product: {source: {path: product.onnx}}\n"
TARGETS = """\
targets:
  soft:
    kind: vulkan
    family: lavapipe
    host: {mcpu: x86-64, mtriple: x86_64-linux-gnu, num-cores: 1}
    device: local
    tune: {trials_per_task: 2, number: 1, repeat: 1, min_repeat_ms: 1}
    benchmark: {repeat: 3, baselines: []}
"""
CELL = "product@soft"
STEPS = ["simplify:product", f"tune:{CELL}", f"compile:{CELL}", f"benchmark:{CELL}"]
PACKAGE = f"build/cells/{CELL}/product-soft.tar"
DEVICE_CLASS = "llvmpipe"


def write_product(path: Path) -> Path:
    """Write y = x · w: one Task."""
    weights = np.random.RandomState(0).uniform(-1, 1, (32, 16)).astype(np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, size]) for name, size in (("x", 32), ("y", 16)))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "product", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def write_vulkan_project(folder: Path, device: str = "local") -> DoitProject:
    """Return a new project of that model on the device."""
    model = write_product(folder / "made.onnx")
    project = write_project(folder, model, MODELS, TARGETS.replace("device: local", f"device: {device}"))
    (project.root / "digits.onnx").rename(project.root / "product.onnx")
    return project
