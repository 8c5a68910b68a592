from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.passes.block_prefix_sums import BLOCK
from tvmbuild.compiler.pipeline import lower

pytestmark = [pytest.mark.compiler, pytest.mark.vulkan]
TYPES = ("float32", "float16", "float64", "int32", "int64")


def check(shape: tuple[int, ...], axis: int, dtype: str, **attributes: int) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node("CumSum", ["x", "axis"], ["y"], **attributes)],
        "net",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.array(axis), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    lowered = lower(import_model(model, "net", for_gpu=True), lavapipe())
    got = build_here(lowered, lavapipe())({"x": data})["y"]
    assert got.dtype == data.dtype
    np.testing.assert_array_equal(got, expect(data, axis, **attributes))


def expect(data: np.ndarray, axis: int, exclusive: int = 0, reverse: int = 0) -> np.ndarray:
    turned = np.flip(data, axis) if reverse else data
    sums = np.cumsum(turned, axis, dtype=np.float64)
    sums = sums - turned if exclusive else sums
    return (np.flip(sums, axis) if reverse else sums).astype(data.dtype)


@pytest.mark.parametrize("length", [1, 33, BLOCK, BLOCK + 1, BLOCK**2 + 5])
def test_a_sum_of_any_length_is_exact(length: int) -> None:
    check((2, length), 1, "float32")


@st.composite
def draw_sums(draw: st.DrawFn) -> dict[str, Any]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:axis], draw(st.integers(1, 300)), *shape[axis + 1 :])
    flags = {name: draw(st.integers(0, 1)) for name in ("exclusive", "reverse")}
    return {"shape": shape, "axis": axis - draw(st.sampled_from([0, len(shape)])), **flags}


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", TYPES)
def test_any_axis_and_attribute(dtype: str) -> None:
    @given(draw_sums())
    @settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck), print_blob=True)
    def run(drawn: dict[str, Any]) -> None:
        check(drawn["shape"], drawn["axis"], dtype, exclusive=drawn["exclusive"], reverse=drawn["reverse"])

    run()


def test_infinities_stay_where_they_are() -> None:
    graph = helper.make_graph(
        [helper.make_node("CumSum", ["x", "axis"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (70,))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(0), "axis")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = np.ones(70, np.float32)
    data[5] = np.inf
    got = build_here(lower(import_model(model, "net", for_gpu=True), lavapipe()), lavapipe())({"x": data})["y"]
    np.testing.assert_array_equal(got, np.cumsum(data))
