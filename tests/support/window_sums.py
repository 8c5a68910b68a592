"""Sums over windows as in networks: convolutions and pooling, lowered for a GPU."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper
from vulkan_devices import HOST

from tvmbuild.base.attributes import Precision
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks

Layout = Literal["NCHW", "NHWC"]
LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
CARD = tvm_target("cuda", FrozenMap({"arch": "sm_90", **LIMITS}), HOST)
BUSY = (24, 24, 112)
"""Pictures, channels and size of a function with enough threads for neighbours."""


def sum_windows(
    operator: str, shape: tuple[int, int, int], *, layout: Layout = "NHWC", precision: Precision = "fp16", **said: Any
) -> tvm.IRModule:
    """Return the function of a convolution with a bias and a bound, depthwise by default, or of pooling.

    ``shape`` describes square pictures: their number, channels and size.
    """
    batch, channels, size = shape
    kept: list[Any] = []
    if operator == "Conv":
        random = np.random.RandomState(0)
        group = said.setdefault("group", channels)
        weights = random.uniform(-1, 1, (channels, channels // group, *said["kernel_shape"])).astype(np.float32)
        kept = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(weights[:, 0, 0, 0].copy(), "b")]
    nodes = [helper.make_node(operator, ["x", *(each.name for each in kept)], ["c"], **said)]
    nodes.append(helper.make_node("Relu", ["c"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, channels, size, size])
    graph = helper.make_graph(
        nodes, "windows", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], kept
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported = import_model(model, "windows")
    narrow = imported if precision == "fp32" else reduce_precision(imported, precision, "cuda")
    tasks = extract_tasks(lower(narrow, CARD, layout))
    return next(task.mod for task in tasks if "conv2d" in task.name or "pool2d" in task.name)
