"""Quantised graphs that no known exporter writes, and that are right all the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from quantised_graphs import Network, compute

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.int8.lower_qdq_to_int8 import lower_qdq_to_int8
from tvmbuild.preparing.reference import run_onnx

pytestmark = pytest.mark.compiler
SHAPE = (1, 8, 9, 9)
SCALE = 0.05
PLAIN = tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap())


def check(
    net: Network,
    tensor: str,
    shape: tuple[int, ...] = SHAPE,
    *,
    allowed: float = SCALE * 1.01,
    target: tvm.target.Target | None = None,
) -> np.ndarray:
    """Compare with ONNX Runtime, unoptimised; return the result."""
    model = net.finish(tensor, shape)
    x = np.random.RandomState(1).uniform(-3, 3, shape).astype(np.float32)
    want = run_onnx(model, {"x": x}, "the network")["y"]
    got = compute(model, x, target)
    assert got.shape == want.shape
    error = np.abs(got - want)
    assert error.max() <= allowed
    assert (error > 0).mean() < 0.05
    return got


def steps(net: Network, scales: list[float], zero: int = 3) -> list[str]:
    return [net.keep(np.array(scales, np.float32)), net.keep(np.full(len(scales), zero, np.uint8))]


def depthwise(net: Network, tensor: str) -> str:
    weights, _ = net.weigh((8, 1, 3, 3))
    return net.round(net.add("Conv", [tensor, weights], group=8, pads=[1, 1, 1, 1]), SCALE, 120)


@pytest.mark.parametrize("axis", [1, -3])
def test_channels_that_are_restored_by_other_scales_than_they_were_rounded_by(axis: int) -> None:
    net = Network(np.random.RandomState(0))
    rounded = net.add("QuantizeLinear", ["x", *steps(net, [0.02] * 4 + [0.03] * 4)], axis=axis)
    other = [net.keep(np.array([0.01] * 4 + [0.05] * 4, np.float32)), net.keep(np.full(8, 9, np.uint8))]
    check(net, depthwise(net, net.add("DequantizeLinear", [rounded, *other], axis=axis)))


def test_channels_that_are_rounded_after_the_whole_tensor_was() -> None:
    net = Network(np.random.RandomState(1))
    pair = steps(net, [0.02] * 4 + [0.03] * 4)
    rounded = net.add("QuantizeLinear", [net.round("x", 0.021, 120), *pair], axis=1)
    check(net, depthwise(net, net.add("DequantizeLinear", [rounded, *pair], axis=1)))


def test_bytes_that_are_divided_stay_whole_numbers() -> None:
    net = Network(np.random.RandomState(2))
    pair = [net.keep(np.float32(SCALE)), net.keep(np.uint8(100))]
    halved = net.add("Div", [net.add("QuantizeLinear", ["x", *pair]), net.keep(np.uint8(2))])
    scaled = net.add("Mul", [net.add("Cast", [halved], to=TensorProto.FLOAT), net.keep(np.float32(0.03))])
    weights, _ = net.weigh((8, 8, 1, 1))
    check(net, net.round(net.add("Conv", [net.round(scaled, 0.04, 0), weights]), SCALE, 120))


def test_a_bias_of_more_dimensions_than_the_product() -> None:
    net = Network(np.random.RandomState(3))
    weights, _ = net.weigh((4, 6), axis=1)
    product = net.add("MatMul", [net.round("x", SCALE, 120), weights])
    added = net.add("Add", [product, net.keep(np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 1, 6))])
    assert check(net, net.round(added, SCALE, 120), (8, 4)).shape == (1, 8, 6)


def test_a_number_that_spreads_over_pixels_is_no_bias() -> None:
    net = Network(np.random.RandomState(4))
    weights, _ = net.weigh((64, 8, 1, 1), axis=None)
    pixels = net.keep(np.linspace(-1, 1, 49, dtype=np.float32).reshape(1, 1, 7, 7))
    added = net.add("Add", [net.add("Conv", [net.round("x", SCALE, 120), weights]), pixels])
    check(net, net.round(added, SCALE, 120), (1, 8, 7, 7))


def test_bounds_that_leave_nothing() -> None:
    net = Network(np.random.RandomState(5))
    weights, _ = net.weigh((8, 8, 1, 1))
    made = net.add("Conv", [net.round("x", SCALE, 120), weights])
    below = net.add("Clip", [made, net.keep(np.float32(-5)), net.keep(np.float32(-1))])
    assert np.all(check(net, net.round(net.add("Relu", [below]), SCALE, 3)) == 0)


def test_windows_whose_sums_overflow_float32() -> None:
    net = Network(np.random.RandomState(6))
    weights, scales = net.weigh((4, 1, 31, 31), extreme=True)
    bias = net.offset(4, scales, SCALE)
    made = net.add("Conv", [net.round("x", SCALE, 0), weights, bias], group=4, pads=[15, 15, 15, 15])
    check(net, net.round(made, 0.5, 120), (1, 4, 40, 40), allowed=0.51)


def test_a_scale_that_has_no_reciprocal() -> None:
    net = Network(np.random.RandomState(7))
    pair = steps(net, [1e-39] + [0.03] * 7)
    silent = net.keep(np.array([0] + [1] * 7, np.float32).reshape(1, 8, 1, 1))
    rounded = net.add("QuantizeLinear", [net.add("Mul", ["x", silent]), *pair], axis=1)
    check(net, depthwise(net, net.add("DequantizeLinear", [rounded, *pair], axis=1)))


@pytest.mark.parametrize("target", [None, PLAIN])
@pytest.mark.parametrize("outputs", [1, 3])
def test_products_of_one_row_and_few_outputs(outputs: int, target: tvm.target.Target | None) -> None:
    net = Network(np.random.RandomState(8))
    weights, _ = net.weigh((4, outputs), axis=1)
    product = net.add("MatMul", [net.round("x", SCALE, 120), weights])
    check(net, net.round(product, SCALE, 120), (1, 4), target=target)


@pytest.mark.parametrize("target", [None, PLAIN])
def test_convolutions_of_one_pixel_to_one_channel(target: tvm.target.Target | None) -> None:
    net = Network(np.random.RandomState(9))
    weights, _ = net.weigh((1, 4, 1, 1))
    check(
        net, net.round(net.add("Conv", [net.round("x", SCALE, 120), weights]), SCALE, 120), (1, 4, 1, 1), target=target
    )


@pytest.mark.parametrize("alpha", [0.5, 3.7])
def test_a_factor_before_a_product_is_a_part_of_its_steps(alpha: float) -> None:
    net = Network(np.random.RandomState(10))
    weights, scales = net.weigh((40, 24), axis=1)
    bias = net.offset(24, scales, SCALE)
    made = net.round(net.add("Gemm", [net.round("x", SCALE, 120), weights, bias], alpha=alpha), 0.2, 120)
    check(net, made, (9, 40), allowed=0.2 * 1.01)
    net.nodes.pop()  # the node that `check` appended
    products = operator_calls(lower_qdq_to_int8(import_onnx(net.finish(made, (9, 40))).mod), "relax.matmul")
    assert [str(call.ty.dtype) for call in products] == ["int32"]


@pytest.mark.parametrize("factor", [0.0, -2.0])
def test_a_factor_that_is_not_positive_stays_one(factor: float) -> None:
    net = Network(np.random.RandomState(11))
    scaled = net.add("Mul", [net.round("x", SCALE, 120), net.keep(np.float32(factor))])
    check(net, depthwise(net, net.round(scaled, SCALE * 2, 120)))


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_bound_on_either_side(kind: str, *, is_first: bool) -> None:
    net = Network(np.random.RandomState(12))
    weights, scales = net.weigh((16, 8, 1, 1))
    made = net.add("Conv", [net.round("x", SCALE, 120), weights, net.offset(16, scales, SCALE)])
    bound = net.keep(np.float32(0.7))
    made = net.add(kind, [bound, made] if is_first else [made, bound])
    got = check(net, net.round(made, SCALE, 120))
    assert got.min() >= 0.7 - SCALE if kind == "Max" else got.max() <= 0.7 + SCALE
    net.nodes.pop()
    mod = lower_qdq_to_int8(import_onnx(net.finish(net.nodes[-1].output[0], SHAPE)).mod)
    bounds = (operator_calls(mod, f"relax.{each}") for each in ("maximum", "minimum"))
    rounded_once = 2  # the input's rounding
    assert [len(calls) for calls in bounds] == [rounded_once, rounded_once]
