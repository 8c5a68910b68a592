"""Convolutions and products on words of four bytes, for GPUs: the CPU computes ONNX Runtime's numbers with them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from quantised_graphs import CONVOLUTIONS, IN_SCALE, OUT_SCALE, Case, Network, convolution, product, run_optimized
from quantized_nodes import Drawn, run_onnx
from vulkan_devices import HOST, LEAST
from vulkan_kernels import lavapipe

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.ir.calls import called_functions
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.pipeline import Lowered, lower

pytestmark = pytest.mark.compiler
LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
TARGETS = {
    "cuda": tvm_target("cuda", FrozenMap({"arch": "sm_86", **LIMITS}), HOST),
    "vulkan": tvm_target("vulkan", FrozenMap({**LEAST, "supports_integer_dot_product": True}), HOST),
}
WITHOUT = {
    "cuda": tvm_target("cuda", FrozenMap({"arch": "sm_60", **LIMITS}), HOST),
    "vulkan": tvm_target("vulkan", FrozenMap(sorted(LEAST.items())), HOST),
}
cards = pytest.mark.parametrize("card", TARGETS)


def count(lowered: Lowered, text: str) -> int:
    """Return the number of called functions that contain the text."""
    return sum(text in str(lowered.mod[variable]) for variable in called_functions(lowered.mod))


def check(case: Case, card: str, words: int) -> None:
    model, shape = case
    lowered = lower(import_onnx(model), TARGETS[card])
    assert count(lowered, "dp4a") == words
    assert count(lower(import_onnx(model), WITHOUT[card]), "dp4a") == 0
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    got = build_here(lowered, host_target())({"x": x})["y"]
    np.testing.assert_array_equal(got, run_optimized(model, {"x": x})["y"])


@pytest.mark.sampled(4)
@cards
@pytest.mark.parametrize("activations", ["uint8", "int8"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, activations: str, card: str) -> None:
    words = 0 if name in {"depthwise", "odd groups", "two outputs a channel"} else 1
    check(convolution(np.random.RandomState(0), activations, **CONVOLUTIONS[name]), card, words)


@cards
@pytest.mark.parametrize(("transposed", "activations"), [(0, "uint8"), (1, "int8")])
def test_products(transposed: int, activations: str, card: str) -> None:
    check(product(np.random.RandomState(3), activations, transposed), card, 1)


@cards
def test_what_two_convolutions_read_is_packed_once(card: str) -> None:
    net = Network(np.random.RandomState(0))
    data = net.round("x", IN_SCALE, 100)
    made = []
    for _ in range(2):
        weights, _ = net.weigh((8, 10, 1, 1))
        made.append(net.round(net.add("Conv", [data, weights]), OUT_SCALE, 120))
    model = net.finish(net.add("Concat", made, axis=1), (1, 10, 6, 6))
    assert count(lower(import_onnx(model), TARGETS[card]), "pack_bytes") == 1
    check((model, (1, 10, 6, 6)), card, 2)


@pytest.mark.sampled(2)
@cards
@pytest.mark.parametrize(("data", "zero"), [("uint8", 0), ("uint8", 7), ("int8", -3)])
def test_integer_operators_of_bytes_of_either_kind(data: str, zero: int, card: str) -> None:
    drawn = Drawn(random=np.random.default_rng(0))
    drawn.fed["x"] = drawn.random.integers(np.iinfo(data).min, np.iinfo(data).max, (1, 6, 9, 9), data, endpoint=True)
    drawn.constants["w"] = drawn.random.integers(-128, 128, (5, 6, 3, 3), "int8")
    node = helper.make_node("ConvInteger", ["x", "w", drawn.constant("z", zero, data)], ["y"], pads=[1, 0, 2, 1])
    model = drawn.model(node)
    lowered = lower(import_model(model, "node"), TARGETS[card])
    assert count(lowered, "dp4a") == 1
    (want,) = run_onnx(onnx.load_from_string(model.SerializeToString()), drawn.fed)
    (got,) = build_here(lowered, host_target())(drawn.fed).values()
    np.testing.assert_array_equal(got, want)


@pytest.mark.vulkan
@pytest.mark.parametrize("shared", [16384, 32768])
def test_bytes_in_shared_memory_fit_a_small_device(shared: int) -> None:
    """Our Vulkan code keeps a byte in 32 bits, and a kernel of 33,280 bytes was refused."""
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((192, 192), axis=1)
    made = net.add("MatMul", [net.round("x", IN_SCALE, 100), weights])
    made = net.add("Add", [made, net.offset(192, scales, IN_SCALE)])
    model = net.finish(net.round(made, OUT_SCALE, 120), (50, 192))
    target = lavapipe(max_shared_memory_per_block=shared)
    x = np.random.RandomState(1).uniform(-3, 3, (50, 192)).astype(np.float32)
    got = build_here(lower(import_onnx(model, for_gpu=True), target), target)({"x": x})["y"]
    np.testing.assert_array_equal(got, run_optimized(model, {"x": x})["y"])
