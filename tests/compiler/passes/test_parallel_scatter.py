"""Updates that replace elements, written by many threads on lavapipe, compared with ONNX Runtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.kernels.scatter import NAME
from tvmbuild.compiler.pipeline import lower

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
Arrays = dict[str, np.ndarray]


def check(operator: str, arrays: Arrays, *, constant: bool, **attributes: Any) -> None:
    """Compare an operator on data, indices and updates with ONNX Runtime, and check that many threads write."""
    values = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in arrays.items()
    }
    constants = [numpy_helper.from_array(arrays["indices"], "indices")] if constant else []
    inputs = [value for name, value in values.items() if not (constant and name == "indices")]
    output = helper.make_tensor_value_info("y", values["data"].type.tensor_type.elem_type, None)
    node = helper.make_node(operator, list(arrays), ["y"], **attributes)
    graph = helper.make_graph([node], "net", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {value.name: arrays[value.name] for value in inputs}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lowered = lower(import_model(model, "net", for_gpu=True), lavapipe())
    names: list[str] = []
    map_prim_funcs(lowered.mod, lambda _function, name: names.append(name))
    assert any(NAME in name for name in names) or arrays["indices"].shape == (1, 1)  # ScatterToSelect takes one row
    np.testing.assert_array_equal(build_here(lowered, lavapipe())(feed)["y"], session.run(None, feed)[0])


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


def _check_many(operator: str, drawn: st.SearchStrategy[tuple[Arrays, dict[str, Any]]], examples: int) -> None:
    @given(drawn, st.booleans())
    @settings(
        deadline=None,
        max_examples=examples,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    def run(case: tuple[Arrays, dict[str, Any]], constant: bool) -> None:
        check(operator, case[0], constant=constant, **case[1])

    run()


def test_rows() -> None:
    _check_many("ScatterND", draw_rows(), 12)


def test_elements() -> None:
    _check_many("ScatterElements", draw_elements(), 12)


def test_more_updates_than_a_block_has_threads() -> None:
    random = np.random.default_rng(0)
    arrays: Arrays = {
        "data": random.normal(size=(900, 7)).astype(np.float32),
        "indices": random.permutation(900)[:700, None].astype(np.int64),
        "updates": random.normal(size=(700, 7)).astype(np.float32),
    }
    check("ScatterND", arrays, constant=False)


def test_an_index_outside_writes_nothing() -> None:
    """ONNX Runtime refuses it; a kernel must not write outside its memory."""
    values = {name: ("data", "indices", "updates").index(name) for name in ("data", "indices", "updates")}
    kinds = [onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT]
    shapes = [(4, 2), (3, 1), (3, 2)]
    inputs = [helper.make_tensor_value_info(name, kinds[place], shapes[place]) for name, place in values.items()]
    output = helper.make_tensor_value_info("y", kinds[0], None)
    graph = helper.make_graph([helper.make_node("ScatterND", list(values), ["y"])], "net", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    lowered = lower(import_model(model, "net", for_gpu=True), lavapipe())
    feed = {"data": np.zeros((4, 2), np.float32), "indices": np.array([[4], [-5], [1 << 40]])}
    got = build_here(lowered, lavapipe())({**feed, "updates": np.ones((3, 2), np.float32)})["y"]
    np.testing.assert_array_equal(got, feed["data"])
