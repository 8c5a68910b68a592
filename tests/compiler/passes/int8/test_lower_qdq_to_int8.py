"""Quantised graphs equal ONNX Runtime, which computes them in integers, too, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from quantised_graphs import (
    CONVOLUTIONS,
    IN_SCALE,
    OUT_SCALE,
    Network,
    compute,
    convolution,
    moved,
    product,
    run_optimized,
)

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.compiler.pipeline import lower
from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
PLAIN: dict[str, AttributeValue] = {"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2}


def left_in_floats(model: bytes) -> set[str]:
    """Return the sums that are not computed in integers."""
    mod = lower_qdq_to_int8(import_onnx(model).mod)
    calls = (*operator_calls(mod, "relax.nn.conv"), *operator_calls(mod, "relax.matmul"))
    return {call.op.name for call in calls if str(call.ty.dtype) != "int32"}


def check(model: bytes, shape: tuple[int, ...], target: tvm.target.Target | None = None) -> None:
    assert left_in_floats(model) == set()
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    want = run_optimized(model, {"x": x})["y"]
    np.testing.assert_array_equal(compute(model, x, target), want)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "activations"), [*((name, "uint8") for name in CONVOLUTIONS), ("padded", "int8")])
def test_convolutions(name: str, activations: str) -> None:
    check(*convolution(np.random.RandomState(0), activations, **CONVOLUTIONS[name]))


@pytest.mark.parametrize("name", ["depthwise", "saturated", "groups", "odd groups", "two outputs a channel"])
def test_convolutions_of_other_cpus(name: str) -> None:
    check(
        *convolution(np.random.RandomState(0), **CONVOLUTIONS[name]), tvm_target("llvm", FrozenMap(PLAIN), FrozenMap())
    )


@pytest.mark.parametrize("name", ["groups", "odd groups", "two outputs a channel"])
def test_groups_of_several_channels_are_left_in_floats_without_an_instruction(name: str) -> None:
    model, shape = convolution(np.random.RandomState(0), **CONVOLUTIONS[name])
    (call,) = operator_calls(lower_qdq_to_int8(import_onnx(model).mod, plain=True), "relax.nn.conv2d")
    assert str(call.ty.dtype) == "float32"
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    plain = tvm_target("llvm", FrozenMap({**PLAIN, "mcpu": "x86-64"}), FrozenMap())
    error = np.abs(compute(model, x, plain) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= OUT_SCALE * 1.01


@given(st.data())
@settings(max_examples=5, deadline=None)
def test_drawn_convolutions(data: st.DataObject) -> None:
    draw = data.draw
    group = draw(st.sampled_from([1, 1, 5]))
    kernel = [draw(st.integers(1, 3)) for _ in range(2)]
    case = {
        "channels": group if group > 1 else draw(st.integers(1, 19)),
        "out": group if group > 1 else draw(st.integers(1, 19)),
        "size": (draw(st.integers(6, 15)), draw(st.integers(6, 15))),
        "kernel_shape": kernel,
        "group": group,
        "strides": [draw(st.integers(1, 2)) for _ in range(2)],
        "pads": [draw(st.integers(0, 1)) for _ in range(4)],
        "zero": draw(st.integers(0, 255)),
        "axis": draw(st.sampled_from([0, None])),
        "bias": draw(st.booleans()),
    }
    check(
        *convolution(np.random.RandomState(draw(st.integers(0, 99))), draw(st.sampled_from(["uint8", "int8"])), **case)
    )


@pytest.mark.parametrize(("transposed", "activations"), [(0, "uint8"), (1, "int8")])
def test_products(transposed: int, activations: str) -> None:
    check(*product(np.random.RandomState(3), activations, transposed))


def test_what_leaves_numbers_as_they_are_is_done_to_integers() -> None:
    model, shape = moved(np.random.RandomState(5))
    assert left_in_floats(model) == set()
    mod = lower_qdq_to_int8(import_onnx(model).mod)
    (pool,), (concat,) = operator_calls(mod, "relax.nn.max_pool2d"), operator_calls(mod, "relax.concat")
    assert str(pool.ty.dtype) == str(concat.ty.dtype) == "uint8"
    check(model, shape)


def test_integers_that_were_moved_before_they_are_numbers() -> None:
    net = Network(np.random.RandomState(6), "int8")
    steps = [net.keep(np.float32(IN_SCALE)), net.keep(np.int8(-9))]
    turned = net.add("Transpose", [net.add("QuantizeLinear", ["x", *steps])], perm=[0, 1, 3, 2])
    weights, scales = net.weigh((8, 6, 1, 1))
    made = net.add("Conv", [net.add("DequantizeLinear", [turned, *steps]), weights, net.offset(8, scales, IN_SCALE)])
    check(net.finish(net.round(made, OUT_SCALE, 120), (1, 6, 8, 8)), (1, 6, 8, 8))


def test_convolutions_that_pad_with_zero_points_need_no_transposes() -> None:
    net = Network(np.random.RandomState(8))
    tensor = net.round("x", IN_SCALE, 131)
    for _ in range(3):
        weights, scales = net.weigh((8, 8, 3, 3))
        tensor = net.add("Conv", [tensor, weights, net.offset(8, scales, IN_SCALE)], pads=[1, 1, 1, 1])
        tensor = net.round(tensor, OUT_SCALE, 120)
    mod = lower(import_onnx(net.finish(tensor, (1, 8, 9, 9))), host_target(threads=2)).mod
    names = [variable.name_hint for variable in mod.functions]
    assert sum("conv2d" in name for name in names) >= 1
    assert sum("transpose" in name for name in names) <= 2


def test_residual_sums_and_activations_are_within_a_step() -> None:
    net = Network(np.random.RandomState(7))
    rounded = net.round("x", IN_SCALE, 110)
    weights, scales = net.weigh((16, 16, 3, 3))
    summed = net.add("Conv", [rounded, weights, net.offset(16, scales, IN_SCALE)], pads=[1, 1, 1, 1])
    first = net.round(summed, OUT_SCALE, 120)
    gate = net.round(net.add("Sigmoid", [first]), 1 / 255, 0)
    both = net.round(net.add("Add", [net.round(net.add("Mul", [first, gate]), OUT_SCALE, 30), rounded]), OUT_SCALE, 60)
    model = net.finish(both, (1, 16, 9, 9))
    assert left_in_floats(model) == set()
    x = np.random.RandomState(1).uniform(-3, 3, (1, 16, 9, 9)).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= OUT_SCALE * 1.01
    assert (error > 0).mean() < 0.01


def test_a_bias_in_floats_is_taken_too() -> None:
    """NNCF leaves biases in floats; they are rounded to steps of the sum, a thousandth of the output's steps."""
    net = Network(np.random.RandomState(9))
    weights, _ = net.weigh((16, 8, 1, 1))
    bias = net.keep(np.random.RandomState(0).uniform(-1, 1, 16).astype(np.float32))
    made = net.add("Conv", [net.round("x", IN_SCALE, 100), weights, bias])
    model = net.finish(net.round(made, OUT_SCALE, 120), (1, 8, 6, 6))
    assert left_in_floats(model) == set()
    assert count_float_sums(model) == 0
    x = np.random.RandomState(1).uniform(-3, 3, (1, 8, 6, 6)).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= OUT_SCALE * 1.01
    assert (error > 0).mean() < 0.01


def count_float_sums(model: bytes) -> int:
    """Return the number of float sums with one operand per channel, like a bias."""
    calls = operator_calls(lower_qdq_to_int8(import_onnx(model).mod), "relax.add")
    return sum(str(call.ty.dtype) == "float32" and len(getattr(call.args[1].ty, "shape", ())) > 0 for call in calls)


@pytest.mark.parametrize("high", [6.0, 3.0])
def test_bounds_of_a_sum_are_bounds_of_its_integers(high: float) -> None:
    """The bound is a ReLU6 as exporters write it: only a byte's bounds are left, or it coincides with these."""
    net = Network(np.random.RandomState(9))
    weights, scales = net.weigh((16, 8, 1, 1))
    made = net.add("Conv", [net.round("x", IN_SCALE, 100), weights, net.offset(16, scales, IN_SCALE)])
    bounded = net.add("Clip", [made, net.keep(np.float32(0)), net.keep(np.float32(high))])
    model = net.finish(net.round(bounded, 6 / 255, 0), (1, 8, 6, 6))
    mod = lower_qdq_to_int8(import_onnx(model).mod)
    highs = [float(call.args[1].value.numpy()) for call in operator_calls(mod, "relax.minimum")]
    assert highs == [255, min(255, round(high * 255 / 6))]
    x = np.random.RandomState(1).uniform(-3, 3, (1, 8, 6, 6)).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= 6 / 255 * 1.01
    assert (error > 0).mean() < 0.01


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "bounds"), [("Min", (-1.0,)), ("Max", (100.0,)), ("Clip", (-3.0, -1.0))])
@pytest.mark.parametrize("activations", ["uint8", "int8"])
def test_bounds_beyond_what_a_byte_holds(activations: str, kind: str, bounds: tuple[float, ...]) -> None:
    net = Network(np.random.RandomState(9), activations)
    weights, scales = net.weigh((16, 8, 1, 1))
    made = net.add("Conv", [net.round("x", IN_SCALE, 100), weights, net.offset(16, scales, IN_SCALE)])
    bounded = net.add(kind, [made, *(net.keep(np.float32(each)) for each in bounds)])
    model = net.finish(net.round(bounded, OUT_SCALE, 0), (1, 8, 6, 6))
    x = np.random.RandomState(1).uniform(-3, 3, (1, 8, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(compute(model, x), run_onnx(model, {"x": x}, "the network")["y"])


def test_a_bias_of_many_steps_is_added_as_floats() -> None:
    """The bias is NNCF's, of dead channels with weights of nearly 0; the other channels lose nothing by it."""
    net = Network(np.random.RandomState(9))
    scales = np.full(16, 0.01, np.float32)
    scales[5] = 1e-16
    values = np.random.RandomState(2).randint(-127, 128, (16, 8, 1, 1)).astype(np.int8)
    weights = net.add("DequantizeLinear", [net.keep(each) for each in (values, scales, np.zeros(16, np.int8))], axis=0)
    bias = net.keep(np.random.RandomState(0).uniform(-1, 1, 16).astype(np.float32))
    made = net.add("Relu", [net.add("Conv", [net.round("x", IN_SCALE, 100), weights, bias])])
    model = net.finish(net.round(made, OUT_SCALE, 20), (1, 8, 6, 6))
    mod = lower_qdq_to_int8(import_onnx(model).mod)
    assert count_float_sums(model) == 1
    assert len(operator_calls(mod, "relax.maximum")) == 2  # of the input and the result; the ReLU is a separate bound
    x = np.random.RandomState(1).uniform(-3, 3, (1, 8, 6, 6)).astype(np.float32)
    want = run_onnx(model, {"x": x}, "the network")["y"]  # ONNX Runtime's optimised bias has too few bits for it
    np.testing.assert_array_equal(compute(model, x), want)


def test_an_enormous_bias_overflows_nothing() -> None:
    """A channel has weights of nearly 0, so that its bias has billions of its tiny steps."""
    net = Network(np.random.RandomState(11))
    scales = np.full(8, 0.01, np.float32)
    scales[3] = 1e-9
    names = [net.keep(each) for each in (np.full((8, 8, 1, 1), 100, np.int8), scales, np.zeros(8, np.int8))]
    weights = net.add("DequantizeLinear", names, axis=0)
    bias = np.full(8, 1000, np.int32)
    bias[3] = 2147000000
    steps = [net.keep(each) for each in (bias, scales * np.float32(IN_SCALE), np.zeros(8, np.int32))]
    made = net.add("Conv", [net.round("x", IN_SCALE, 0), weights, net.add("DequantizeLinear", steps, axis=0)])
    model = net.finish(net.round(made, 0.05, 0), (1, 8, 4, 4))
    x = np.random.RandomState(1).uniform(0, 5, (1, 8, 4, 4)).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= 0.05 * 1.01


def test_a_network_without_quantisation_stays_as_it_is() -> None:
    net = Network(np.random.RandomState(13))
    weights = net.keep(np.ones((4, 4, 1, 1), np.float32))
    imported = import_onnx(net.finish(net.add("Conv", ["x", weights]), (1, 4, 5, 5)))
    assert lower_qdq_to_int8(imported.mod).same_as(imported.mod)
