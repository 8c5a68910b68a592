"""The sums of a dot instruction begin with their bias, and floats stay floats until they are rounded."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from quantised_graphs import IN_SCALE, OUT_SCALE, Network, compute, run_optimized
from tvm import tirx

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.ir.prim_funcs import list_blocks, list_nodes
from tvmbuild.compiler.machine.target import host_target, tvm_target
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
SERVER = tvm_target("llvm", FrozenMap({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap())
OLDER = tvm_target("llvm", FrozenMap({"mcpu": "x86-64-v4", "mtriple": "x86_64-linux-gnu"}), FrozenMap())
"""A CPU on which depthwise convolutions are sums of float32."""
ARM = tvm_target("llvm", FrozenMap({"mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu"}), FrozenMap())


def convolve(net: Network, tensor: str, *, depthwise: bool, channels: int = 24, steps: int = 20000) -> str:
    """Append a convolution of that many channels; its bias has at most ``steps`` steps of its sums."""
    weights, scales = net.weigh((channels, 1, 3, 3) if depthwise else (channels, channels, 1, 1))
    bias = net.random.randint(-steps, steps, channels).astype(np.int32)
    names = [net.keep(each) for each in (bias, scales * np.float32(IN_SCALE), np.zeros(channels, np.int32))]
    offset = net.add("DequantizeLinear", names, axis=0)
    given = {"group": channels, "pads": [1, 1, 1, 1]} if depthwise else {}
    return net.add("Conv", [tensor, weights, offset], **given)


def list_functions(model: bytes, target: tvm.target.Target) -> list[tirx.PrimFunc]:
    """Return the functions that add up products."""
    functions = lower(import_onnx(model), target).mod.functions.items()
    return [function for variable, function in functions if "conv2d_int8" in variable.name_hint]


def has_sum(function: tirx.PrimFunc) -> bool:
    """Return whether a block adds a number for each channel to a finished sum."""
    return any(
        isinstance(getattr(block.body, "value", None), tirx.Add) and "conv2d" not in str(block.name_hint)
        for block in list_blocks(function)
        if any(str(region.source.dtype) == "int32" for region in block.reads)
    )


def check(model: bytes, channels: int = 24) -> None:
    x = np.random.RandomState(1).uniform(-3, 3, (1, channels, 7, 7)).astype(np.float32)
    np.testing.assert_array_equal(compute(model, x), run_optimized(model, {"x": x})["y"])


@pytest.mark.parametrize("target", [SERVER, ARM], ids=["x86-64", "ARM"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_sums_begin_with_their_bias(target: tvm.target.Target, *, depthwise: bool) -> None:
    net = Network(np.random.RandomState(0))
    made = convolve(net, net.round("x", IN_SCALE, 100), depthwise=depthwise)
    model = net.finish(net.round(made, OUT_SCALE, 120), (1, 24, 7, 7))
    (function,) = list_functions(model, target)
    assert not has_sum(function)
    check(model)


def test_sums_of_floats_are_made_integers_only_as_bytes() -> None:
    net = Network(np.random.RandomState(0))
    made = convolve(net, net.round("x", IN_SCALE, 100), depthwise=True)
    (function,) = list_functions(net.finish(net.round(made, OUT_SCALE, 120), (1, 24, 7, 7)), OLDER)
    assert "int32" not in {str(cast.ty.dtype) for cast in list_nodes(function, tirx.Cast)}


def test_a_bias_of_very_many_steps_leaves_sums_in_floats() -> None:
    """The bias of dead channels is added to the scaled sum, because float32 cannot represent integers of this size."""
    net = Network(np.random.RandomState(0))
    made = convolve(net, net.round("x", IN_SCALE, 100), depthwise=True, steps=1 << 25)
    model = net.finish(net.round(made, 400 * OUT_SCALE, 120), (1, 24, 7, 7))
    assert not has_sum(*list_functions(model, SERVER))
    (function,) = list_functions(model, OLDER)
    assert not has_sum(function)
    assert "int32" not in {str(cast.ty.dtype) for cast in list_nodes(function, tirx.Cast)}
    x = np.random.RandomState(1).uniform(-3, 3, (1, 24, 7, 7)).astype(np.float32)
    error = np.abs(compute(model, x) - run_optimized(model, {"x": x})["y"])
    assert error.max() <= 400 * OUT_SCALE * 1.01
    assert (error > 0).mean() < 0.01


def test_a_sum_that_is_used_twice_is_computed_once() -> None:
    net = Network(np.random.RandomState(0))
    made = convolve(net, net.round("x", IN_SCALE, 100), depthwise=False)
    halves = [net.round(net.add(kind, [made]), OUT_SCALE, 120) for kind in ("Relu", "Identity")]
    model = net.finish(net.round(net.add("Concat", halves, axis=1), OUT_SCALE, 120), (1, 24, 7, 7))
    assert len(list_functions(model, SERVER)) == 1
    check(model)


def test_channels_that_fill_no_vector_have_a_beginning_as_well() -> None:
    net = Network(np.random.RandomState(0))
    rounded = net.round("x", IN_SCALE, 100)
    net.nodes.append(helper.make_node("Split", [rounded], ["left", "right"], axis=1))
    model = net.finish(net.round(convolve(net, "left", depthwise=False, channels=5), OUT_SCALE, 120), (1, 10, 7, 7))
    check(model, channels=10)


@pytest.mark.parametrize("rows", [1, 9])
def test_products_begin_with_their_bias(rows: int) -> None:
    net = Network(np.random.RandomState(0))
    weights, scales = net.weigh((50, 10), axis=1)
    made = net.add("Gemm", [net.round("x", IN_SCALE, 90), weights, net.offset(10, scales, IN_SCALE)])
    model = net.finish(net.round(made, OUT_SCALE, 128), (rows, 50))
    functions = lower(import_onnx(model), SERVER).mod.functions.items()
    (function,) = (each for variable, each in functions if "matmul_int8" in variable.name_hint)
    assert not has_sum(function)
    x = np.random.RandomState(1).uniform(-3, 3, (rows, 50)).astype(np.float32)
    np.testing.assert_array_equal(compute(model, x, host_target(threads=1)), run_optimized(model, {"x": x})["y"])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (10,), (7, 1), (2, 7, 10)])
def test_whatever_is_added_to_sums_of_integers_is_added_as_onnx_says(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    constants = {"w": random.integers(-128, 128, (50, 10)).astype(np.int8)}
    constants["b"] = random.integers(-9999, 9999, shape).astype(np.int32)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["sums"]), helper.make_node("Add", ["sums", "b"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (7, 50))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ).SerializeToString()
    x = random.integers(0, 256, (7, 50)).astype(np.uint8)
    want = x.astype(np.int64) @ constants["w"].astype(np.int64) + constants["b"]
    np.testing.assert_array_equal(compute(model, x, host_target(threads=1)), want)
