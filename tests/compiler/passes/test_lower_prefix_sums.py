"""Prefix sums on CPUs and on lavapipe, compared with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.machine.target import host_target, is_gpu
from tvmbuild.compiler.passes.prefix_sums.blocks import BLOCK
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
TARGETS = ["llvm", pytest.param("vulkan", marks=pytest.mark.vulkan)]
TYPES = ("float32", "float16", "float64", "int32", "int64")


def compute(model: onnx.ModelProto, data: np.ndarray, kind: str) -> np.ndarray:
    """Return the model's output y for this input x."""
    target = lavapipe() if kind == "vulkan" else host_target(threads=2)
    lowered = lower(import_model(model, "net", for_gpu=is_gpu(target)), target)
    got: np.ndarray = build_here(lowered, target)({"x": data})["y"]
    return got


def check(target: str, data: np.ndarray, axis: int, **attributes: int) -> None:
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    graph = helper.make_graph(
        [helper.make_node("CumSum", ["x", "axis"], ["y"], **attributes)],
        "net",
        [helper.make_tensor_value_info("x", kind, data.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.array(axis), "axis")],
    )
    got = compute(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), data, target)
    assert got.dtype == data.dtype
    np.testing.assert_array_equal(got, expect(data, axis, **attributes))


def draw(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Return small whole numbers, whose sums are exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def expect(data: np.ndarray, axis: int, exclusive: int = 0, reverse: int = 0) -> np.ndarray:
    turned = np.flip(data, axis) if reverse else data
    sums = np.cumsum(turned, axis, dtype=np.float64)
    sums = sums - turned if exclusive else sums
    return (np.flip(sums, axis) if reverse else sums).astype(data.dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [1, 33, BLOCK, BLOCK + 1, BLOCK**2 + 5])
def test_a_sum_of_any_length_is_exact(length: int, target: str) -> None:
    check(target, draw((2, length)), 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("inner", [1, 3, 16, 37, 1024, 1500])
def test_rows_of_any_length_are_summed_up(inner: int) -> None:
    """A CPU's thread takes 1,024 elements of a row at a time, in vectors."""
    for exclusive in (0, 1):
        check("llvm", draw((2, 7, inner)), 1, exclusive=exclusive)


@st.composite
def draw_sums(draw: st.DrawFn) -> dict[str, Any]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:axis], draw(st.integers(1, 300)), *shape[axis + 1 :])
    flags = {name: draw(st.integers(0, 1)) for name in ("exclusive", "reverse")}
    return {"shape": shape, "axis": axis - draw(st.sampled_from([0, len(shape)])), **flags}


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_axis_and_attribute(dtype: str, target: str) -> None:
    @given(draw_sums())
    @settings(deadline=None, max_examples=draws(12), suppress_health_check=list(HealthCheck), print_blob=True)
    def run(drawn: dict[str, Any]) -> None:
        data = draw(drawn["shape"], dtype)
        check(target, data, drawn["axis"], exclusive=drawn["exclusive"], reverse=drawn["reverse"])

    run()


@pytest.mark.parametrize("target", TARGETS)
def test_infinities_stay_where_they_are(target: str) -> None:
    data = np.ones((70, 2), np.float32)
    data[5, 1] = np.inf
    check(target, data, 0)
