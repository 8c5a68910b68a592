from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from onnx import helper, numpy_helper
from vulkan_kernels import lavapipe

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.dump import record_passes
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.kernels.top_k import CHUNK
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.block_top_k import FAN
from tvmbuild.compiler.pipeline import Lowered, lower

TYPES = ("float32", "float16", "int32", "int64", "int8", "uint8")
HOST: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})


def make_model(data: np.ndarray, k: int, **attributes: int) -> onnx.ModelProto:
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    outputs = [("y", kind), ("at", onnx.TensorProto.INT64)]
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["y", "at"], **attributes)],
        "net",
        [helper.make_tensor_value_info("x", kind, data.shape)],
        [helper.make_tensor_value_info(name, each, None) for name, each in outputs],
        [numpy_helper.from_array(np.array([k]), "k")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def lower_top_k(data: np.ndarray, k: int, target: tvm.target.Target, **attributes: int) -> Lowered:
    return lower(import_model(make_model(data, k, **attributes), "net", for_gpu=True), target)


def list_functions(lowered: Lowered) -> set[str]:
    return {each.name_hint.rstrip("0123456789") for each in lowered.mod.functions} - {"main"}


def check(data: np.ndarray, k: int, **attributes: int) -> None:
    lowered = lower_top_k(data, k, lavapipe(), **attributes)
    assert "topk" not in list_functions(lowered)
    got = build_here(lowered, lavapipe())({"x": data})
    values, indices = expect(data, k, **attributes)
    np.testing.assert_array_equal(got["at"], indices)
    assert got["y"].dtype == data.dtype
    np.testing.assert_array_equal(got["y"].view(f"u{data.itemsize}"), values.view(f"u{data.itemsize}"))


def expect(data: np.ndarray, k: int, **attributes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of ONNX Runtime, in order even if the node asks for none."""
    model = make_model(data, k, **{**attributes, "sorted": 1})
    values, indices = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data})
    return values, indices


def draw(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Return numbers; about half of them come twice or more."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        most = min(int(np.prod(shape)), 60_000)  # float16 has no more
        return random.integers(-most, most, shape).astype(dtype)
    limits = np.iinfo(dtype)
    data = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    data.flat[:: max(1, data.size // 5)] = random.choice([limits.min, limits.max])
    return data


@pytest.mark.compiler
@pytest.mark.vulkan
class TestOnGpus:
    @pytest.mark.parametrize("largest", [0, 1])
    @pytest.mark.parametrize("dtype", TYPES)
    def test_every_type_in_several_chunks(self, dtype: str, largest: int) -> None:
        check(draw((2, 2 * CHUNK + 300), dtype), 40, largest=largest)

    @pytest.mark.parametrize("length", [1, 2, 3, 33, CHUNK - 1, CHUNK, CHUNK + 1])
    def test_all_of_a_row_is_a_stable_sort(self, length: int) -> None:
        check(draw((3, length), "float32"), length, largest=0)

    @pytest.mark.parametrize("k", [1, 300])
    def test_rows_of_many_anchors(self, k: int) -> None:
        check(draw((1, 8400), "float32"), k)

    def test_more_runs_than_one_round_merges(self) -> None:
        check(draw((1, FAN * CHUNK + 7), "float32"), 200)

    def test_a_long_row_sorted_whole(self) -> None:
        check(draw((2, FAN * CHUNK + 7), "int32"), FAN * CHUNK + 7, largest=0)

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_every_axis(self, axis: int) -> None:
        check(draw((37, 41, 43), "float32"), 9, axis=axis)

    @pytest.mark.parametrize("largest", [0, 1])
    def test_equal_elements_come_by_their_indices(self, largest: int) -> None:
        check(np.zeros((1, 3 * CHUNK), np.float32), 2 * CHUNK, largest=largest)

    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    @pytest.mark.parametrize("largest", [0, 1])
    def test_nans_are_the_largest_and_the_sign_of_zero_does_not_count(self, dtype: str, largest: int) -> None:
        data = np.array([[np.nan, 0, -0.0, np.inf, -np.nan, -np.inf, 1, -0.0, 0, -1, np.inf, -np.inf]], dtype)
        check(data, data.shape[1], largest=largest)

    def test_denormals_are_told_apart(self) -> None:
        check(np.array([[1e-42, 3e-42, 0, 2e-42, -1e-42]], np.float32), 5)

    def test_blocks_of_256_threads(self) -> None:
        target = lavapipe(max_threads_per_block=256, max_shared_memory_per_block=16384)
        data = draw((1, 3000), "int64")
        got = build_here(lower_top_k(data, 20, target), target)({"x": data})
        np.testing.assert_array_equal(got["at"], expect(data, 20)[1])


@st.composite
def draw_top_k(drawer: st.DrawFn) -> dict[str, Any]:
    shape = drawer(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    axis = drawer(st.integers(0, len(shape) - 1))
    shape[axis] = drawer(st.integers(1, 3 * CHUNK))
    k = drawer(st.integers(1, shape[axis]))
    flags = {name: drawer(st.integers(0, 1)) for name in ("largest", "sorted")}
    return {"shape": tuple(shape), "k": k, "axis": axis - drawer(st.sampled_from([0, len(shape)])), **flags}


@pytest.mark.compiler
@pytest.mark.vulkan
@pytest.mark.nightly
@pytest.mark.parametrize("dtype", TYPES)
def test_any_shape_and_attribute(dtype: str) -> None:
    @given(draw_top_k(), st.integers(0, 9))
    @settings(deadline=None, max_examples=draws(12), suppress_health_check=list(HealthCheck), print_blob=True)
    def run(drawn: dict[str, Any], seed: int) -> None:
        check(draw(drawn.pop("shape"), dtype, seed), **drawn)

    run()


def test_cpus_keep_the_importers_function() -> None:
    assert list_functions(lower_top_k(np.zeros((1, 8400), np.float32), 300, tvm_target("llvm", HOST, HOST))) == {"topk"}


def test_float64_keeps_the_importers_function_and_a_remark_says_why() -> None:
    with record_passes() as ran:
        assert list_functions(lower_top_k(np.zeros((1, 8400)), 300, lavapipe())) == {"topk"}
    assert [dict(each.missed) for each in ran if each.name == "BlockTopK"] == [{"its elements are float64": 1}]
