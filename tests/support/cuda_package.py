"""A package of four convolutions for a card that this machine lacks: with the shim, its kernels are written down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from small_package import build_package

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.frozen_map import FrozenMap

HOST: Attributes = FrozenMap({"mcpu": "x86-64", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
_CARD = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
SHAPE = (1, 3, 8, 8)


def build_cuda_package(folder: Path, **attributes: AttributeValue) -> Path:
    """Return the package, whose input `x` and output `y` are of SHAPE, for an H100 or the stated attributes."""
    weight = numpy_helper.from_array(np.full((3, 3, 3, 3), 0.1, np.float32), "w")
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("Conv", [names[i], "w"], [names[i + 1]], pads=[1, 1, 1, 1]) for i in range(4)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "net.onnx")
    return build_package(folder / "net.onnx", folder, FrozenMap({"arch": "sm_90", **_CARD, **attributes}), "cuda", HOST)
