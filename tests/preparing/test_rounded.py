"""The simulation of short floats: it rounds where the compiler does, and the search keeps what overflows."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from uneven_net import SAMPLES, make_net

from tvmbuild.base.attributes import Precision
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.preparing.keep.choose import KeepSearch, Run
from tvmbuild.preparing.keep.errors import OutputError
from tvmbuild.preparing.keep.rounded import FOLLOWERS, RoundedModel
from tvmbuild.preparing.keep.search import Judged
from tvmbuild.preparing.reference import run_onnx

OTHERS = ("Exp", "Log", "Pow", "Sqrt", "ReduceSum", "InstanceNormalization", "Softplus", "Elu", "LogSoftmax", "Pad")
"""Operators that stay in float32, of several kinds."""
BINARY = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Concat", "Sum", "Mean"}


def _constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


ONES = [_constant("scale", np.ones(4)), _constant("bias", np.ones(4))]
AXIS = [_constant("axis", [0], np.int64)]
OPERANDS: dict[str, list[onnx.TensorProto]] = {
    "BatchNormalization": [*ONES, _constant("mean", np.ones(4)), _constant("var", np.ones(4))],
    "Clip": [_constant("low", -1.0), _constant("high", 6.0)],
    "Expand": [_constant("shape", [2, 4, 8, 8], np.int64)],
    "Gather": [_constant("index", [0, 1], np.int64)],
    "InstanceNormalization": ONES,
    "LayerNormalization": [_constant("scale8", np.ones(8)), _constant("bias8", np.zeros(8))],
    "PRelu": [_constant("slope", np.ones((4, 1, 1)))],
    "Pad": [_constant("pads", [0, 0, 1, 1, 0, 0, 1, 1], np.int64)],
    "Pow": [_constant("power", 2.0)],
    "Reshape": [_constant("shape", [1, -1], np.int64)],
    "Resize": [_constant("scales", [1, 1, 2, 2])],
    "Slice": [_constant("start", [0], np.int64), _constant("end", [2], np.int64)],
    "Squeeze": AXIS,
    "Unsqueeze": AXIS,
    "Where": [_constant("condition", np.ones((1, 4, 8, 8)), np.bool_)],
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "AveragePool": {"kernel_shape": [2, 2]},
    "Concat": {"axis": 1},
    "DepthToSpace": {"blocksize": 2},
    "Gather": {"axis": 1},
    "MaxPool": {"kernel_shape": [2, 2]},
    "SpaceToDepth": {"blocksize": 2},
    "Split": {"axis": 1},
}


def _make_follower(operator: str) -> onnx.ModelProto:
    """Return two convolutions, and the operator after one or both."""
    operands = OPERANDS.get(operator, [])
    names = [tensor.name for tensor in operands]
    inputs = ["a", "b"] if operator in BINARY else [*names, "a", "b"] if operator == "Where" else ["a", *names]
    inputs = ["a", "", *names] if operator == "Resize" else inputs
    outputs = ["y", "z"] if operator == "Split" else ["y"]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first"),
        helper.make_node("Conv", ["x", "v"], ["b"], "second"),
        helper.make_node(operator, inputs, outputs, "last", **ATTRIBUTES.get(operator, {})),
    ]
    weights = [_constant("w", np.full((4, 4, 1, 1), 0.3)), _constant("v", np.full((4, 4, 1, 1), 0.7))]
    data = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])]
    graph = helper.make_graph(nodes, "net", data, [onnx.ValueInfoProto(name="y")], [*weights, *operands])
    graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    opset = 20 if operator == "Gelu" else 17
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _narrows_last(mod: tvm.ir.IRModule) -> bool:
    """Return whether the module's last value before the output has 16 bits."""
    last = mod["main"].body.blocks[0].bindings[-1].value
    is_cast = isinstance(last, tvm.ir.Call) and getattr(last.op, "name", "") == "relax.astype"
    return is_cast and str(last.args[0].ty.dtype) == "float16"


@pytest.mark.parametrize("operator", sorted(FOLLOWERS | set(OTHERS)))
def test_values_are_rounded_where_the_compiler_narrows_them(operator: str) -> None:
    model = _make_follower(operator)
    mod = reduce_precision(import_onnx(model.SerializeToString(), "net"), "fp16", "cuda").mod
    assert _narrows_last(relax.transform.CanonicalizeBindings()(mod)) == (operator in FOLLOWERS)
    (owner,) = [group for group in RoundedModel(model, "fp16").groups if group.name == "first"]
    assert ("last" in owner.nodes) == (operator in FOLLOWERS)


@pytest.mark.parametrize(("precision", "step"), [("fp16", 2**-11), ("bf16", 2**-8)])
def test_a_product_is_rounded_once(precision: Precision, step: float) -> None:
    model, inputs = _make_follower("Identity"), {"x": np.full((1, 4, 8, 8), 1 / 3, np.float32)}
    (exact, rounded) = (
        run_onnx(each.SerializeToString(), inputs, "net")["y"]
        for each in (model, RoundedModel(model, precision).build(frozenset()))
    )
    error = np.max(np.abs(rounded / exact - 1))
    assert step / 8 < error < 3 * step
    kept = RoundedModel(model, precision).build(frozenset({"first", "last"}))
    assert np.array_equal(run_onnx(kept.SerializeToString(), inputs, "net")["y"], exact)


def _round_bits(values: Any) -> Any:
    """Round float32 values to 10 bits of mantissa, halves away from zero, as `cvt.rna.tf32.f32` does."""
    return ((values.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


def test_the_factors_of_products_have_the_bits_of_tf32() -> None:
    """A matrix of ones passes a single factor on: the product shows its bits, and the result has all of them."""
    random = np.random.RandomState(0)
    values = (random.uniform(-2, 2, (64, 4)) * 2.0 ** random.randint(-60, 60, (64, 4))).astype(np.float32)
    one, third = np.eye(4, dtype=np.float32), np.full((4, 4), 1 / 3, np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "one"], ["y"], "moved"),
        helper.make_node("MatMul", ["one", "third"], ["z"], "constant"),
        helper.make_node("Add", ["x", "x"], ["a"], "added"),
    ]
    data = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 4])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "ya"]
    graph = helper.make_graph(nodes, "net", [data], outputs, [_constant("one", one), _constant("third", third)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rounded = RoundedModel(model, "tf32")
    got = run_onnx(rounded.build(frozenset()).SerializeToString(), {"x": values}, "net")
    assert np.array_equal(got["y"], _round_bits(values))
    assert not np.array_equal(got["y"], values)
    assert np.array_equal(got["a"], values + values)
    assert [group.nodes for group in rounded.groups] == [("moved",)]
    assert rounded.list_keepable(("added", "moved")) == ("moved",)
    kept = run_onnx(rounded.build(frozenset({"moved"})).SerializeToString(), {"x": values}, "net")
    assert np.array_equal(kept["y"], values)


def test_a_product_of_tf32_rounds_both_factors_and_no_result() -> None:
    model, inputs = _make_follower("Identity"), {"x": np.full((1, 4, 8, 8), 1 / 3, np.float32)}
    got = run_onnx(RoundedModel(model, "tf32").build(frozenset()).SerializeToString(), inputs, "net")["y"]
    third, weight = (_round_bits(np.array([value], np.float32)) for value in (1 / 3, 0.3))
    np.testing.assert_allclose(got, np.broadcast_to(4 * third * weight, got.shape), rtol=2**-22)


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, 1e38, 3.4e38, np.inf])
def test_extreme_factors_stay_finite_in_tf32(value: float) -> None:
    model, inputs = _make_follower("Identity"), {"x": np.full((1, 4, 8, 8), value, np.float32)}
    got = run_onnx(RoundedModel(model, "tf32").build(frozenset()).SerializeToString(), inputs, "net")["y"]
    assert np.all(np.isfinite(got))


def test_the_group_that_overflows_is_kept() -> None:
    net = make_net()
    for tensor in net.graph.initializer:
        if tensor.name == "factor":  # 400 · 200 exceeds 65504
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 400, "factor"))
    (net.graph.node[4]).op_type = "Softsign"  # a limit of a value beyond float16's range is right; of infinity NaN
    errors = OutputError([run_onnx(net.SerializeToString(), each, "net") for each in SAMPLES])

    def judge(run: Run) -> Judged:
        error = errors.measure([run(each) for each in SAMPLES])
        return Judged(error < 1e-3, f"error {error:.3g}")

    choice = KeepSearch(RoundedModel(net, "fp16"), SAMPLES, judge).find()
    assert choice is not None
    assert [group.name for group in choice.groups] == ["second"]
    assert choice.describe().startswith("`keep: auto` keeps 1 of 3 groups in float32, ")
    assert "all in fp16: error inf; with these in float32: error " in choice.describe()
