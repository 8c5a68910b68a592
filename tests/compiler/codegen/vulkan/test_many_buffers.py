"""Concatenations, the operators with the most buffers, are right up to a target's limit and beyond it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from vulkan_devices import HOST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.runtime.session import Session
from tvmbuild.targets.vulkan_families import FAMILIES

pytestmark = pytest.mark.compiler


def build(count: int, family: str, path: Path) -> None:
    lengths = [3 + index % 3 for index in range(count)]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [1, n]) for i, n in enumerate(lengths)]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, sum(lengths)])
    join = helper.make_node("Concat", [each.name for each in inputs], ["y"], axis=1)
    model = helper.make_model(
        helper.make_graph([join], "g", inputs, [output]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.checker.check_model(model)
    target = PackageTarget("here", "vulkan", FrozenMap(sorted(FAMILIES[family].items())), HOST)
    write_package(path, build_package(model.SerializeToString(), target, options=BuildOptions("join")))


@pytest.mark.vulkan
@pytest.mark.parametrize("count", [31, 32, 80])
def test_what_lavapipe_takes_in_a_kernel_and_more_is_right(count: int, tmp_path: Path) -> None:
    build(count, "lavapipe", tmp_path / "join.tar")
    with Session(tmp_path / "join.tar") as session:
        drawn = np.random.default_rng(1)
        inputs = {each.name: drawn.standard_normal(each.shape).astype("float32") for each in session.inputs}
        want = np.concatenate([inputs[f"x{index}"] for index in range(count)], axis=1)
        np.testing.assert_array_equal(session.run(inputs)["y"], want)
