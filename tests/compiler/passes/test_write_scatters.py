"""Scatters on this CPU, and those that replace elements by many threads on lavapipe, compared with ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.kernels.scatter import NAME
from tvmbuild.compiler.machine.target import host_target
from tvmbuild.compiler.passes import write_scatters
from tvmbuild.compiler.pipeline import Lowered, lower

pytestmark = pytest.mark.compiler
Arrays = dict[str, np.ndarray]
TARGETS = pytest.mark.parametrize(
    "target", ["cpu", *(pytest.param(way, marks=pytest.mark.vulkan) for way in ("threads", "blocks"))]
)
"""A CPU, and a GPU on which threads or blocks combine updates."""


def find_target(name: str) -> tvm.target.Target:
    return host_target(threads=2) if name == "cpu" else lavapipe()


def lower_for(model: onnx.ModelProto, target: str) -> Lowered:
    with mock.patch.object(write_scatters, "_ROUND", 0.0 if target == "blocks" else math.inf):
        return lower(import_model(model, "net", for_gpu=target != "cpu"), find_target(target))


def check(operator: str, arrays: Arrays, target: str, *, constant: bool, **attributes: Any) -> None:
    """Compare an operator on data, indices and updates with ONNX Runtime, and check that our kernel computes it."""
    values = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in arrays.items()
    }
    constants = [numpy_helper.from_array(arrays["indices"], "indices")] if constant else []
    inputs = [value for name, value in values.items() if not (constant and name == "indices")]
    output = helper.make_tensor_value_info("y", values["data"].type.tensor_type.elem_type, None)
    node = helper.make_node(operator, list(arrays), ["y"], **attributes)
    graph = helper.make_graph([node], "net", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feed = {value.name: arrays[value.name] for value in inputs}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lowered = lower_for(model, target)
    names: list[str] = []
    map_prim_funcs(lowered.mod, lambda _function, name: names.append(name))
    assert any(NAME in name for name in names) or arrays["indices"].shape == (1, 1)  # ScatterToSelect takes one row
    got = build_here(lowered, find_target(target))(feed)["y"]
    np.testing.assert_array_equal(got, session.run(None, feed)[0])


@st.composite
def draw_rows(draw: st.DrawFn) -> tuple[Arrays, dict[str, Any]]:
    """Draw a ScatterND whose rows differ; half of the indices count from the end."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    depth = draw(st.integers(1, len(shape)))
    cells = math.prod(shape[:depth])
    count = draw(st.integers(2 if cells > 1 else 1, cells))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    chosen = random.permutation(cells)[:count]
    indices = np.stack(np.unravel_index(chosen, shape[:depth]), -1).astype(np.int64)
    indices -= random.integers(0, 2, indices.shape) * np.array(shape[:depth])
    return {
        "data": random.normal(size=shape).astype(np.float32),
        "indices": indices,
        "updates": random.normal(size=(count, *shape[depth:])).astype(np.float32),
    }, {}


@st.composite
def draw_elements(draw: st.DrawFn) -> tuple[Arrays, dict[str, Any]]:
    """Draw a ScatterElements whose places along the axis differ."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    part = tuple(draw(st.integers(1, size)) for size in shape)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    places = np.argsort(random.random(shape), axis)
    indices = places[tuple(slice(size) for size in part)].astype(np.int64)
    indices -= random.integers(0, 2, indices.shape) * shape[axis]
    return {
        "data": random.integers(-9, 9, shape).astype(np.int32),
        "indices": indices,
        "updates": random.integers(-9, 9, part).astype(np.int32),
    }, {"axis": axis - draw(st.sampled_from([0, len(shape)]))}


def _check_many(operator: str, drawn: st.SearchStrategy[tuple[Arrays, dict[str, Any]]], target: str) -> None:
    @given(drawn, st.booleans(), st.sampled_from(["none", "add", "mul", "min", "max"]))
    @settings(
        deadline=None,
        max_examples=12,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    def run(case: tuple[Arrays, dict[str, Any]], constant: bool, reduction: str) -> None:
        check(operator, case[0], target, constant=constant, reduction=reduction, **case[1])

    run()


@TARGETS
def test_rows(target: str) -> None:
    _check_many("ScatterND", draw_rows(), target)


@TARGETS
def test_elements(target: str) -> None:
    _check_many("ScatterElements", draw_elements(), target)


@TARGETS
def test_more_updates_than_a_block_has_threads(target: str) -> None:
    random = np.random.default_rng(0)
    arrays: Arrays = {
        "data": random.normal(size=(900, 7)).astype(np.float32),
        "indices": random.permutation(900)[:700, None].astype(np.int64),
        "updates": random.normal(size=(700, 7)).astype(np.float32),
    }
    check("ScatterND", arrays, target, constant=False)


@pytest.mark.parametrize("width", [64, 70, 1])
@pytest.mark.parametrize("reduction", ["add", "max"])
@TARGETS
def test_rows_that_are_added_up_by_several_threads(target: str, width: int, reduction: str) -> None:
    """Graph networks add up messages: many rows have the same index, and float32 sums depend on the order."""
    random = np.random.default_rng(0)
    arrays: Arrays = {
        "data": random.normal(size=(300, width)).astype(np.float32),
        "indices": random.integers(0, 300, (40000 // width, 1)),
        "updates": random.normal(size=(40000 // width, width)).astype(np.float32),
    }
    check("ScatterND", arrays, target, constant=False, reduction=reduction)


@pytest.mark.parametrize(
    ("data", "updates", "axis"),
    [
        ((500, 40), (400, 60), 1),
        ((40, 512), (90, 512), 0),
        ((1, 30, 256), (1, 150, 200), 1),
        ((40000,), (9000,), 0),
        ((100,), (66000,), 0),
    ],
)
@TARGETS
def test_elements_before_and_after_the_axis(
    target: str, data: tuple[int, ...], updates: tuple[int, ...], axis: int
) -> None:
    random = np.random.default_rng(0)
    arrays: Arrays = {
        "data": random.normal(size=data).astype(np.float32),
        "indices": random.integers(0, data[axis], updates),
        "updates": random.normal(size=updates).astype(np.float32),
    }
    check("ScatterElements", arrays, target, constant=False, axis=axis, reduction="add")


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
@TARGETS
def test_an_update_that_is_not_a_number_is_the_result(target: str, operator: str, reduction: str) -> None:
    places, nan = np.array([0, 1, 2, 2, 3]), np.nan
    arrays: Arrays = {
        "data": np.array([1, nan, 1, 2], np.float32),
        "indices": places[:, None] if operator == "ScatterND" else places,
        "updates": np.array([nan, 1, nan, 5, nan], np.float32),
    }
    check(operator, arrays, target, constant=False, reduction=reduction)


@pytest.mark.parametrize("dtype", ["bool", "float16", "float64", "int64", "uint8"])
@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
def test_elements_of_every_size(operator: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    places = random.permutation(60)[:30, None]
    arrays: Arrays = {
        "data": random.integers(0, 2, (60, 130)).astype(dtype),
        "indices": places if operator == "ScatterND" else np.repeat(places, 130, axis=1),
        "updates": random.integers(0, 2, (30, 130)).astype(dtype),
    }
    check(operator, arrays, "cpu", constant=False)


@TARGETS
def test_an_index_outside_writes_nothing(target: str) -> None:
    """ONNX Runtime refuses it; a kernel must not write outside its memory."""
    values = {name: ("data", "indices", "updates").index(name) for name in ("data", "indices", "updates")}
    kinds = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT]
    shapes = [(4, 2), (3, 1), (3, 2)]
    inputs = [helper.make_tensor_value_info(name, kinds[place], shapes[place]) for name, place in values.items()]
    output = helper.make_tensor_value_info("y", kinds[0], None)
    graph = helper.make_graph([helper.make_node("ScatterND", list(values), ["y"])], "net", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    lowered = lower_for(model, target)
    feed = {"data": np.zeros((4, 2), np.float32), "indices": np.array([[4], [-5], [1 << 40]])}
    got = build_here(lowered, find_target(target))({**feed, "updates": np.ones((3, 2), np.float32)})["y"]
    np.testing.assert_array_equal(got, feed["data"])
