"""Operators that keep bytes between integer convolutions: tables, concatenations, splits, padded channels, images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from quantised_graphs import Network, compute, run_optimized

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.kernels.int8.lookup import find_lookup
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
IN_SCALE, OUT_SCALE = 0.02, 0.11
SERVER = tvm_target("llvm", FrozenMap({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap())
PLAIN = tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap())


def convolve(
    net: Network, tensor: str, channels: tuple[int, int], *, kernel: int = 1, group: int = 1, scale: float = OUT_SCALE
) -> str:
    """Append a convolution of quantised data with that scale, and the rounding of its result."""
    inputs, outputs = channels
    weights, scales = net.weigh((outputs, inputs // group, kernel, kernel))
    pads = [kernel // 2] * 4
    made = net.add("Conv", [tensor, weights, net.offset(outputs, scales, scale)], group=group, pads=pads)
    return net.round(made, OUT_SCALE, 120)


def check(net: Network, tensor: str, shape: tuple[int, ...]) -> None:
    """Compare with ONNX Runtime, on this CPU and for one without instructions that look up bytes."""
    model = net.finish(tensor, shape)
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    want = run_optimized(model, {"x": x})["y"]
    for target in (host_target(threads=2), PLAIN):
        np.testing.assert_array_equal(compute(model, x, target), want)


def functions_of(model: bytes) -> list[str]:
    return [variable.name_hint for variable in lower(import_onnx(model), SERVER).mod.functions]


def activate(net: Network, tensor: str, kind: str) -> str:
    if kind == "SiLU":
        gate = net.round(net.add("Sigmoid", [tensor]), 1 / 255, 0)
        return net.round(net.add("Mul", [tensor, gate]), OUT_SCALE, 30)
    return net.round(net.add(kind, [tensor]), 0.63 * OUT_SCALE, 50)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["SiLU", "LeakyRelu", "HardSwish", "Sigmoid", "Tanh", "Abs"])
def test_what_is_computed_of_each_byte_alone_is_looked_up(kind: str) -> None:
    net, shape = Network(np.random.RandomState(3)), (1, 16, 9, 9)
    first = convolve(net, net.round("x", IN_SCALE, 110), (16, 16), kernel=3, scale=IN_SCALE)
    model = net.finish(convolve(net, activate(net, first, kind), (16, 8)), shape)
    names = functions_of(model)
    assert any("lookup" in name for name in names)
    assert not any(word in name for name in names for word in ("sigmoid", "tanh", "abs", "leaky"))
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= OUT_SCALE * 1.01
    assert (error > 0).mean() < 0.01


def test_networks_without_convolutions_have_tables_too() -> None:
    net = Network(np.random.RandomState(12))
    tensor, scale = net.round("x", IN_SCALE, 110), IN_SCALE
    for _ in range(2):
        weights, scales = net.weigh((16, 16), axis=1)
        product = net.add("Gemm", [tensor, weights, net.offset(16, scales, scale)])
        tensor, scale = activate(net, net.round(product, OUT_SCALE, 120), "Tanh"), 0.63 * OUT_SCALE
    model = net.finish(tensor, (8, 16))
    assert any("lookup" in name for name in functions_of(model))
    x = np.random.RandomState(1).uniform(-3, 3, (8, 16)).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= OUT_SCALE
    assert (error > 0).mean() < 0.05


def test_what_is_computed_of_two_tensors_is_not() -> None:
    net = Network(np.random.RandomState(4))
    rounded = net.round("x", IN_SCALE, 110)
    first, second = (convolve(net, rounded, (16, 16), scale=IN_SCALE) for _ in range(2))
    model = net.finish(convolve(net, net.round(net.add("Mul", [first, second]), 0.7, 100), (16, 16)), (1, 16, 9, 9))
    assert not any("lookup" in name for name in functions_of(model))


def test_tensors_smaller_than_a_vector_are_computed() -> None:
    net = Network(np.random.RandomState(4))
    model = net.finish(
        activate(net, convolve(net, net.round("x", IN_SCALE, 110), (4, 8), scale=IN_SCALE), "Tanh"), (1, 4, 1, 1)
    )
    assert not any("lookup" in name for name in functions_of(model))


def test_a_concatenation_rounds_each_part() -> None:
    net = Network(np.random.RandomState(5))
    rounded = net.round("x", IN_SCALE, 110)
    first = convolve(net, rounded, (6, 8), scale=IN_SCALE)
    parts = [first, net.round(rounded, 3 * IN_SCALE, 100), activate(net, rounded, "LeakyRelu")]
    both = net.round(net.add("Concat", parts, axis=1), OUT_SCALE, 128)
    check(net, convolve(net, both, (20, 8)), (1, 6, 9, 9))


@pytest.mark.parametrize("channels", [12, 58])
def test_channels_that_are_shuffled_stay_bytes(channels: int) -> None:
    net, shape = Network(np.random.RandomState(6)), (1, channels, 6, 6)
    rounded = net.round("x", IN_SCALE, 110)
    joined = net.add("Concat", [convolve(net, rounded, (channels, channels), scale=IN_SCALE), rounded], axis=1)
    both = net.round(joined, OUT_SCALE, 128)
    for wanted in ((1, 2, channels, 6, 6), None, (1, 2 * channels, 6, 6)):
        if wanted is None:
            both = net.add("Transpose", [both], perm=[0, 2, 1, 3, 4])
        else:
            both = net.add("Reshape", [both, net.keep(np.array(wanted, np.int64))])
    left = net.add("Slice", [both, *(net.keep(np.array([each])) for each in (0, channels, 1))])
    check(net, convolve(net, left, (channels, channels)), shape)


def test_the_parts_of_a_split_stay_bytes() -> None:
    net = Network(np.random.RandomState(8))
    rounded = net.round("x", IN_SCALE, 110)
    net.nodes.append(helper.make_node("Split", [rounded], ["left", "right"], axis=1))
    left = convolve(net, "left", (8, 8), scale=IN_SCALE)
    check(net, net.round(net.add("Concat", [left, "right"], axis=1), OUT_SCALE, 128), (1, 16, 9, 9))


@pytest.mark.parametrize("channels", [58, 24, 5, 3])
def test_channels_are_filled_up_from_one_convolution_to_the_next(channels: int) -> None:
    net, shape = Network(np.random.RandomState(7)), (1, 16, 7, 7)
    first = convolve(net, net.round("x", IN_SCALE, 110), (16, channels), scale=IN_SCALE)
    second = convolve(net, first, (channels, channels), kernel=3, group=channels)
    both = net.round(net.add("Add", [second, first]), 1.7 * OUT_SCALE, 110)
    check(net, convolve(net, both, (channels, 16), kernel=3, scale=1.7 * OUT_SCALE), shape)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("activation", ["Relu", "SiLU"])
@pytest.mark.parametrize("zero", [None, 3])
def test_depthwise_convolutions_read_channels_of_different_steps(activation: str, dtype: str, zero: int | None) -> None:
    """NNCF writes these for depthwise convolutions; ONNX Runtime's optimised code fails on them."""
    channels, shape = 24, (1, 8, 9, 9)
    net = Network(np.random.RandomState(10))
    first = convolve(net, net.round("x", IN_SCALE, 110), (8, channels), scale=IN_SCALE)
    active = net.add("Relu", [first]) if activation == "Relu" else net.add("Mul", [first, net.add("Sigmoid", [first])])
    scales = net.random.uniform(0.05, 0.11, channels).astype(np.float32)
    zeros = net.random.randint(0, 90, channels) if zero is None else np.full(channels, zero)
    zeros -= 128 if dtype == "int8" else 0
    model = finish_by_channel(net, active, scales, zeros.astype(dtype), shape)
    mod = lower_qdq_to_int8(import_onnx(model).mod)
    assert {str(call.ty.dtype) for call in operator_calls(mod, "relax.nn.conv2d")} == {"int32"}
    check_by_channel(model, shape)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zeros", [(0, 128), (0, 40, 255)])
def test_after_an_activation_that_gives_nothing_negative_they_read_bytes(zeros: tuple[int, ...], dtype: str) -> None:
    """NNCF's zero point of a channel that is always 0 lies in the middle, and that of the others at 0."""
    channels, shape = 24, (1, 8, 9, 9)
    net = Network(np.random.RandomState(10))
    weights, _ = net.weigh((channels, 8, 1, 1))
    made = net.add("Conv", [net.round("x", IN_SCALE, 110), weights])
    active = net.add("Clip", [made, net.keep(np.float32(0)), net.keep(np.float32(6))])
    scales = net.random.uniform(0.02, 0.03, channels).astype(np.float32)
    chosen = net.random.choice(zeros, channels) - (128 if dtype == "int8" else 0)
    model = finish_by_channel(net, active, scales, chosen.astype(dtype), shape)
    *_, depthwise = operator_calls(lower_qdq_to_int8(import_onnx(model).mod), "relax.nn.conv2d")
    assert str(depthwise.args[0].ty.dtype) == "uint8"
    check_by_channel(model, shape)


def finish_by_channel(
    net: Network, active: str, scales: np.ndarray[Any, Any], zeros: np.ndarray[Any, Any], shape: tuple[int, ...]
) -> bytes:
    """Return the network with a depthwise convolution, whose data are rounded to each channel's steps."""
    steps = [net.keep(scales), net.keep(zeros)]
    rounded = net.add("QuantizeLinear", [active, *steps], axis=1)
    by_channel = net.add("DequantizeLinear", [rounded, *steps], axis=1)
    weights, _ = net.weigh((len(scales), 1, 3, 3))
    made = net.add("Conv", [by_channel, weights], group=len(scales), pads=[1, 1, 1, 1])
    return net.finish(net.round(made, OUT_SCALE, 120), shape)


def check_by_channel(model: bytes, shape: tuple[int, ...]) -> None:
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    want = run_onnx(model, {"x": x}, "the network")["y"]
    for target in (host_target(threads=2), PLAIN):
        error = np.abs(compute(model, x, target) - want)
        assert error.max() <= OUT_SCALE * 1.01
        assert (error > 0).mean() < 0.01


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_padded_with_its_zero_point(channels: int) -> None:
    net = Network(np.random.RandomState(9))
    rounded = net.round("x", IN_SCALE, 77)
    first = convolve(net, rounded, (channels, 16), kernel=3, scale=IN_SCALE)
    check(net, convolve(net, first, (16, 8)), (1, channels, 12, 20))


def test_the_way_of_this_cpu_is_known() -> None:
    assert find_lookup(SERVER) is not None
    assert find_lookup(PLAIN) is None
