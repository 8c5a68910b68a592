"""Kernels name the rule that made their schedule, on CPUs and on GPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.inspection import Kernel, list_kernels
from tvmbuild.building.scheduling import schedule_model
from tvmbuild.package.metadata import PackageTarget

pytestmark = pytest.mark.compiler
HOST: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
CARD: Attributes = FrozenMap(
    {
        "arch": "sm_87",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
        "registers_per_block": 65536,
        "l2_cache_size_bytes": 4194304,
    }
)


def list_by_name(folder: Path, target: PackageTarget) -> dict[str, Kernel]:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["y"], perm=[0, 2, 3, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 32, 16, 16))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((32, 32, 3, 3), "float32"), "w")],
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return {each.name: each for each in list_kernels(schedule_model(path, target))}


def list_rules(kernel: Kernel) -> list[str]:
    return [each.rule for each in kernel.attempts if each.refused is None]


def test_a_card_s_kernel_is_by_one_rule_and_views_are_none(tmp_path: Path) -> None:
    kernels = list_by_name(tmp_path, PackageTarget("orin", "cuda", CARD, HOST))
    assert {kernel.origin for kernel in kernels.values()} == {"rule"}
    assert all(len(list_rules(kernel)) == 1 for kernel in kernels.values())
    assert list_rules(kernels["conv2d"])[0].startswith("gpu.")
    assert any(list_rules(kernel)[0].startswith("dlight.") for kernel in kernels.values())


def test_a_cpu_s_kernel_says_what_was_tried_before(tmp_path: Path) -> None:
    kernels = list_by_name(tmp_path, PackageTarget("v3", "llvm", HOST))
    (conv,) = (kernel for name, kernel in kernels.items() if name.startswith("conv2d"))
    assert list_rules(conv)[0] == "cpu.tile.schedule_tiled"
    assert ("cpu.injective.schedule_injective", "it is a reduction") in {
        (each.rule, each.refused) for each in conv.attempts
    }
