"""Maxima and minima of floats that may be infinite, on GPUs: by integers, right for every special value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper, numpy_helper
from tvm.s_tir.meta_schedule.database import MemoryDatabase
from vulkan_kernels import lavapipe

from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.schedules.gpu.rules import list_schedules

pytestmark = pytest.mark.compiler
SPECIALS = {
    kind: [-np.inf, np.inf, np.nan, -np.nan, 0.0, -0.0, limits.max, limits.min, limits.tiny, 1.0, -1.0]
    for kind, limits in ((kind, np.finfo(kind)) for kind in ("float16", "float32"))
}


def make(shape: tuple[int, ...], dtype: str, axes: list[int], *, before: str = "", **reduction: Any) -> onnx.ModelProto:
    """Return the model that reduces x, or a function of x."""
    name = reduction.pop("name")
    nodes = [helper.make_node(before, ["x"], ["a"])] if before else []
    nodes.append(helper.make_node(name, ["a" if before else "x", "axes"], ["y"], **reduction))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info("x", kind, shape)], [helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "net", *values, [numpy_helper.from_array(np.array(axes), "axes")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def lower_for(target: tvm.target.Target, model: onnx.ModelProto) -> Lowered:
    lowered = lower(import_model(model, "net", for_gpu=True), target)
    functions: list[tvm.tirx.PrimFunc] = []
    map_prim_funcs(lowered.mod, lambda function, _name: functions.append(function))
    assert any("int32" in function.script() for function in functions)
    return lowered


@st.composite
def rows(draw: st.DrawFn) -> tuple[np.ndarray, list[int], bool]:
    """Draw rows, half of them with nothing but special values, and the axes to reduce."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 31, 70]), min_size=1, max_size=3)))
    axes = sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    dtype, random = draw(st.sampled_from(sorted(SPECIALS))), np.random.default_rng(draw(st.integers(0, 999)))
    values = random.normal(size=shape).astype(dtype)
    kinds = draw(st.lists(st.sampled_from(SPECIALS[dtype]), min_size=1, max_size=3))
    chosen = random.random(shape) < draw(st.sampled_from([0.1, 1.0]))
    return np.where(chosen, random.choice(np.array(kinds, dtype), shape), values), axes, draw(st.booleans())


@pytest.mark.vulkan
@settings(max_examples=draws(20), deadline=None, derandomize=True)
@given(rows(), st.sampled_from(["ReduceMax", "ReduceMin"]))
def test_every_special_value_counts(case: tuple[np.ndarray, list[int], bool], name: str) -> None:
    data, axes, keep = case
    lowered = lower_for(lavapipe(), make(data.shape, str(data.dtype), axes, name=name, keepdims=int(keep)))
    got = build_here(lowered, lavapipe())({"x": data})["y"]
    want = (np.max if name == "ReduceMax" else np.min)(data, axis=tuple(axes), keepdims=keep)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("shape", "axes"), [((300000,), [0]), ((2, 70000, 3), [1])])
@pytest.mark.parametrize("keep", [0, 1])
def test_many_threads_share_a_long_row(shape: tuple[int, ...], axes: list[int], keep: int) -> None:
    lowered = lower_for(lavapipe(), make(shape, "float32", axes, name="ReduceMax", keepdims=keep))
    functions: list[tvm.tirx.PrimFunc] = []
    map_prim_funcs(lowered.mod, lambda function, _name: functions.append(function))
    (schedule,) = (list_schedules(function, lavapipe(), 1)[0] for function in functions)
    (block,) = (
        each for each in schedule.get_child_blocks(schedule.get_sblock("root")) if schedule.get(each).init is not None
    )
    loops = [schedule.get(loop) for loop in schedule.get_loops(block)]
    threads = [int(loop.extent) for loop in loops if loop.thread_binding is not None]
    assert math.prod(threads) >= 64


@pytest.mark.vulkan
def test_bfloat16() -> None:
    model = make((3, 70), "float32", [1], before="Log", name="ReduceMax", keepdims=0)
    log, reduce = model.graph.node
    cast = [helper.make_node("Cast", ["x"], ["b"], to=onnx.TensorProto.BFLOAT16)]
    log.input[0], reduce.output[0] = "b", "c"
    back = helper.make_node("Cast", ["c"], ["y"], to=onnx.TensorProto.FLOAT)
    nodes = [*cast, log, reduce, back]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    data = np.repeat(np.array([[0, 1, 2]], np.float32).T, 70, axis=1)
    got = build_here(lower_for(lavapipe(), model), lavapipe())({"x": data})["y"]
    np.testing.assert_allclose(got, [-np.inf, 0, np.log(2)], rtol=1e-2)


@pytest.mark.parametrize("before", ["", "Log"])
def test_the_code_compiles_for_a_card(gpu: tvm.target.Target, before: str) -> None:
    lowered = lower_for(gpu, make((4, 5000), "float32", [1], before=before, name="ReduceMax", keepdims=0))
    assert build_executable(apply_records(lowered, gpu, MemoryDatabase()).mod, gpu) is not None
