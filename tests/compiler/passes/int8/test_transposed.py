"""Transposed convolutions of quantised tensors, and one-dimensional ones: integers, and ONNX Runtime's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import draws
from quantised_graphs import IN_SCALE, OUT_SCALE, Case, Network, compute, run_optimized
from vulkan_devices import HOST

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.compiler.passes.widen_conv1d import widen_conv1d
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
FEW = settings(max_examples=draws(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CARD = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
GPU = tvm_target("cuda", FrozenMap({"arch": "sm_86", **CARD}), HOST)
CASES: dict[str, dict[str, Any]] = {
    "patches": {"kernel": (2, 2), "strides": [2, 2]},
    "overlapping": {"kernel": (4, 4), "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "odd": {"kernel": (3, 3), "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    "gaps": {"kernel": (2, 1), "strides": [3, 2]},
    "no strides": {"kernel": (3, 2), "pads": [0, 1, 2, 0]},
    "cropped": {"kernel": (5, 5), "strides": [2, 3], "pads": [3, 4, 2, 1]},
    "one dimension": {"kernel": (4,), "strides": [2], "pads": [1, 1]},
}


def transposed(given: dict[str, Any], seed: int = 0, activations: str = "uint8", axis: int | None = 1) -> Case:
    """Return a network of one transposed convolution from 10 channels to 6."""
    attributes = dict(given)
    kernel, zero = attributes.pop("kernel"), attributes.pop("zero", 77)
    net = Network(np.random.RandomState(seed), activations)
    weights, scales = net.weigh((10, 6, *kernel), axis=axis)
    names = [net.round("x", IN_SCALE, zero), weights, net.offset(6 * attributes.get("group", 1), scales, IN_SCALE)]
    shape = (2, 10, *(7, 5)[: len(kernel)])
    made = net.add("Relu", [net.add("ConvTranspose", names, **attributes)])
    return net.finish(net.round(made, OUT_SCALE, 3), shape), shape


def find_types(model: bytes) -> set[str]:
    """Return the types of the convolutions' sums."""
    mod = lower_qdq_to_int8(widen_conv1d(import_onnx(model).mod))
    return {str(call.ty.dtype) for call in operator_calls(mod, "relax.nn.conv")}


def check(got: np.ndarray, want: np.ndarray) -> None:
    """Compare with ONNX Runtime, which adds up floats here: ties between two steps may go to either side."""
    assert got.shape == want.shape
    assert np.unique(want).size > 10
    apart = np.rint(np.abs(got - want) / OUT_SCALE)
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= max(1, want.size // 500)


def draw(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_transposed(name: str, activations: str) -> None:
    model, shape = transposed(CASES[name], activations=activations)
    assert find_types(model) == {"int32"}
    want = run_optimized(model, {"x": draw(shape)})["y"]
    check(compute(model, draw(shape)), want)
    check(compute(model, draw(shape), host_target("x86-64-v3", 2)), want)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in CASES if name != "one dimension"])
def test_gpus_multiply_words(name: str) -> None:
    model, shape = transposed(CASES[name])
    lowered = lower(import_onnx(model), GPU)
    assert str(lowered.mod).count("T.dp4a(") == 1
    got = build_here(lowered, host_target())({"x": draw(shape)})["y"]
    check(got, run_optimized(model, {"x": draw(shape)})["y"])


@given(st.data())
@FEW
def test_any_kernel_strides_and_padding(data: st.DataObject) -> None:
    kernel = tuple(data.draw(st.integers(1, 5)) for _ in range(2))
    strides = [data.draw(st.integers(1, 4)) for _ in range(2)]
    pads = [data.draw(st.integers(0, size - 1)) for size in (*kernel, *kernel)]
    more = [data.draw(st.integers(0, stride - 1)) for stride in strides]
    case = {"kernel": kernel, "strides": strides, "pads": pads, "output_padding": more}
    zero, axis = data.draw(st.sampled_from([0, 77, 255])), data.draw(st.sampled_from([None, 1]))
    model, shape = transposed({**case, "zero": zero}, data.draw(st.integers(0, 99)), axis=axis)
    check(compute(model, draw(shape)), run_optimized(model, {"x": draw(shape)})["y"])


@pytest.mark.parametrize("attributes", [{"group": 2}, {"dilations": [2, 2]}])
def test_groups_and_dilation_stay_in_floats(attributes: dict[str, Any]) -> None:
    model, shape = transposed({"kernel": (3, 3), **attributes}, axis=None)
    assert find_types(model) == {"float32"}
    got, want = compute(model, draw(shape)), run_optimized(model, {"x": draw(shape)})["y"]
    assert np.abs(got - want).max() <= OUT_SCALE * 1.01


def test_they_stay_in_floats_without_an_instruction() -> None:
    model, shape = transposed(CASES["patches"])
    (call,) = operator_calls(lower_qdq_to_int8(import_onnx(model).mod, plain=True), "relax.nn.conv")
    assert str(call.ty.dtype) == "float32"
    check(compute(model, draw(shape), host_target("x86-64", 2)), run_optimized(model, {"x": draw(shape)})["y"])


@pytest.mark.parametrize("seed", range(2))
def test_sums_of_one_dimension_are_rounded_once(seed: int) -> None:
    net = Network(np.random.RandomState(seed))
    weights, scales = net.weigh((64, 8, 3))
    made = net.add("Conv", [net.round("x", IN_SCALE, 131), weights, net.offset(64, scales, IN_SCALE)], pads=[1, 1])
    shape = (1, 8, 4000)
    model = net.finish(net.round(made, 0.013, 120), shape)
    np.testing.assert_array_equal(compute(model, draw(shape)), run_optimized(model, {"x": draw(shape)})["y"])
