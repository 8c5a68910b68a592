"""Small packages for a card that this machine lacks: with the shim, their kernels are written down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper, save
from small_package import build_package, change_package

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.package.archive import read_metadata

HOST: Attributes = FrozenMap({"mcpu": "x86-64", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
_CARD = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
SHAPE = (1, 3, 8, 8)


def build_cuda_package(folder: Path, **attributes: AttributeValue) -> Path:
    """Return the package, whose input `x` and output `y` are of SHAPE, for an H100 or the stated attributes."""
    return _build(folder, attributes, returns_input=False)


def build_package_for_old_drivers(folder: Path) -> Path:
    """Return a package for an H100 that says that it is for CUDA 11.4, without the NVRTC that its kernels would need.

    The shim's driver of CUDA 11.4 accepts the kernels, because it runs none.
    """
    built = build_cuda_package(folder)
    target = read_metadata(built).target
    old = replace(target, attributes=FrozenMap({**target.attributes, "driver": "11.4"}))
    return change_package(built, folder / "old.tar", target=old)


def build_package_that_returns_its_input(folder: Path) -> Path:
    """Return a package for an H100 with a further output `same`: `x` in another shape."""
    return _build(folder, {}, returns_input=True)


def build_package_of_long_names(folder: Path) -> Path:
    """Return the package for an H100 of 80 operators that become one kernel, which TVM names after all of them."""
    values = ["x", *map(str, range(79)), "y"]
    nodes = [helper.make_node("Tanh", [values[i]], [values[i + 1]]) for i in range(80)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y")]
    return _save_and_build(folder, helper.make_graph(nodes, "net", ends[:1], ends[1:]), {})


def build_package_of_like_graphs(folder: Path, count: int) -> Path:
    """Return a package for an H100 with graphs that look alike: kernels that read `x` keep them apart."""
    shape, nodes = (64, 64), [helper.make_node("MatMul", ["x", "w0"], ["m0"])]
    for i in range(count):
        nodes.append(helper.make_node("Softmax", [f"m{i}"], [f"s{i}"]))
        nodes.append(helper.make_node("MatMul", ["x", f"w{i + 1}"], [f"r{i}"]))
        nodes.append(helper.make_node("MatMul", [f"s{i}", f"r{i}"], [f"m{i + 1}"]))
    nodes.append(helper.make_node("Softmax", [f"m{count}"], ["y"]))
    weights = [numpy_helper.from_array(np.full(shape, i, np.float32), f"w{i}") for i in range(count + 1)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    return _save_and_build(folder, helper.make_graph(nodes, "net", ends[:1], ends[1:], weights), {})


def build_package_of_frames(folder: Path) -> Path:
    """Return the package for an H100 of `make_net_of_frames`."""
    graph, options = make_net_of_frames()
    return _save_and_build(folder, graph, {}, **options)


def make_net_of_frames() -> tuple[GraphProto, dict[str, Any]]:
    """Return a network whose output `same` is the input `z`, and the options of a package with frames of 8 by 8."""
    shapes = {"x": (1, 8, 8, 3), "z": (2, 32), "y": (1, 8, 8, 3), "same": (64,)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Reshape", ["z", "flat"], ["same"])]
    graph = helper.make_graph(nodes, "net", ends[:2], ends[2:], [numpy_helper.from_array(np.array([64]), "flat")])
    return graph, {"preprocess": Preprocess(input="x", layout="NHWC"), "frames": (Frame(8, 8, "rgb8"),)}


def save_net(folder: Path, graph: GraphProto) -> Path:
    """Write a network, and return its path."""
    path = folder / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def _build(folder: Path, attributes: dict[str, AttributeValue], *, returns_input: bool) -> Path:
    weight = numpy_helper.from_array(np.full((3, 3, 3, 3), 0.1, np.float32), "w")
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("Conv", [names[i], "w"], [names[i + 1]], pads=[1, 1, 1, 1]) for i in range(4)]
    shapes: dict[str, tuple[int, ...]] = {"x": SHAPE, "y": SHAPE}
    given = [weight]
    if returns_input:
        nodes.append(helper.make_node("Reshape", ["x", "flat"], ["same"]))
        given.append(numpy_helper.from_array(np.array([np.prod(SHAPE)]), "flat"))
        shapes["same"] = (int(np.prod(SHAPE)),)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], given)
    return _save_and_build(folder, graph, attributes)


def _save_and_build(folder: Path, graph: GraphProto, attributes: dict[str, AttributeValue], **options: Any) -> Path:
    card: Attributes = FrozenMap({"arch": "sm_90", **_CARD, **attributes})
    return build_package(save_net(folder, graph), folder, card, "cuda", HOST, **options)
