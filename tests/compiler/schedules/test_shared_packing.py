"""Sizes of a model agree on the layout of a weight where none of them loses much."""

from __future__ import annotations

import pytest


def test_sizes_agree_on_the_cheapest_width_for_all() -> None:
    from tvmbuild.compiler.schedules.cpu.packing import agree, list_changes

    small = {"w": {16: 1.0, 24: 1.3}, "v": {8: 1.0, 16: 1.01}, "lone": {8: 1.0}}
    large = {"w": {24: 1.0, 16: 1.0, 8: 1.01}, "v": {8: 1.0}}
    agreed = agree([small, large])
    assert agreed == {"w": 16}
    assert list_changes(agreed, small) == {}
    assert list_changes(agreed, large) == {"w": 16}


def test_a_width_that_costs_too_much_stays_an_exception() -> None:
    from tvmbuild.compiler.schedules.cpu.packing import agree

    assert agree([{"w": {16: 1.0, 24: 1.03}}, {"w": {24: 1.0, 16: 1.03}}]) == {}
    assert agree([{"w": {16: 1.0}}, {"w": {24: 1.0}}]) == {}
    assert agree([{}, {"w": {24: 1.0}}]) == {}


@pytest.mark.compiler
def test_a_convolution_takes_the_agreed_width() -> None:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    from tvmbuild.base.attributes import Attributes
    from tvmbuild.base.frozen_map import FrozenMap
    from tvmbuild.building.scheduling import schedule_model
    from tvmbuild.compiler.passes.lift_constants import lift_constants
    from tvmbuild.compiler.schedules.cpu.packing import agree, list_changes, share_packings
    from tvmbuild.package.metadata import PackageTarget

    def find_shapes(side: int, widths: dict[str, int]) -> tuple[set[tuple[int, ...]], dict[str, dict[int, float]]]:
        weight = np.random.default_rng(0).normal(size=(384, 384, 1, 1)).astype(np.float32)
        graph = helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["y"])],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 384, side, side])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 384, side, side])],
            [numpy_helper.from_array(weight, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        attributes: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
        with share_packings(widths) as packings:
            made = schedule_model(model.SerializeToString(), PackageTarget("here", "llvm", attributes))
        return {tuple(map(int, each.shape)) for each in lift_constants(made.mod).params}, packings.costs

    (small, of_small), (large, of_large) = find_shapes(10, {}), find_shapes(20, {})
    assert small != large
    agreed = agree([of_small, of_large])
    changed, _ = find_shapes(20, list_changes(agreed, of_large))
    assert changed == small
