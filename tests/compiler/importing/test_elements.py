"""Det, Col2Im, Compress and masked assignments: the nodes that replace them compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from quantized_nodes import run_onnx

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.pipeline import lower
from tvmbuild.errors import TvmbuildError


def make_model(
    operator: str, data: np.ndarray, constants: list[np.ndarray] | None = None, **attributes: Any
) -> onnx.ModelProto:
    names = [f"c{index}" for index in range(len(constants or []))]
    node = helper.make_node(operator, ["x", *names], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
    weights = [numpy_helper.from_array(array, name) for name, array in zip(names, constants or [], strict=True)]
    graph = helper.make_graph([node], "net", [x], [helper.make_empty_tensor_value_info("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def check(model: onnx.ModelProto, data: np.ndarray, want: np.ndarray) -> None:
    expanded = expand_operators(model)
    assert {node.op_type for node in expanded.graph.node}.isdisjoint({"Det", "Col2Im", "Compress"})
    (got,) = run_onnx(expanded, {"x": data})
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
def test_determinants(rows: int, batch: tuple[int, ...]) -> None:
    data = floats(*batch, rows, rows)
    model = make_model("Det", data)
    check(model, data, np.asarray(np.linalg.det(data.astype(np.float64)), np.float32))
    assert import_model(model, "net").outputs[0].shape == batch


def test_large_determinants_are_refused() -> None:
    with pytest.raises(TvmbuildError, match=r"Det \(output 'y'\) cannot be built: its matrices have 5 rows"):
        expand_operators(make_model("Det", floats(5, 5)))


@st.composite
def images(draw: st.DrawFn) -> tuple[onnx.ModelProto, np.ndarray]:
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    block, dilations, begins, ends = each(1, 3), each(1, 2), each(0, 1), each(0, 1)
    strides = block if draw(st.booleans()) else each(1, 3)
    counts, rest = each(1, 4), [draw(st.integers(0, stride - 1)) for stride in strides]
    image = [
        (count - 1) * stride + dilation * (side - 1) + 1 + more - before - after
        for count, stride, dilation, side, more, before, after in zip(
            counts, strides, dilations, block, rest, begins, ends, strict=True
        )
    ]
    if min(image) < 1:
        image = [max(size, 1) for size in image]
        begins, ends, counts = [0] * rank, [0] * rank, [1] * rank
        image, strides = [d * (s - 1) + 1 for d, s in zip(dilations, block, strict=True)], [1] * rank
    channels = draw(st.integers(1, 3))
    data = floats(draw(st.integers(1, 2)), channels * int(np.prod(block)), int(np.prod(counts)))
    attributes = {"strides": strides, "dilations": dilations, "pads": begins + ends}
    return make_model("Col2Im", data, [np.array(image), np.array(block)], **attributes), data


@settings(max_examples=60, deadline=None)
@given(drawn=images())
def test_images_of_columns(drawn: tuple[onnx.ModelProto, np.ndarray]) -> None:
    model, data = drawn
    check(model, data, ReferenceEvaluator(model).run(None, {"x": data})[0])


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_known_conditions(axis: int | None) -> None:
    data = floats(3, 4)
    attributes = {} if axis is None else {"axis": axis}
    model = make_model("Compress", data, [np.array([True, False, True])], **attributes)
    check(model, data, run_onnx(model, {"x": data})[0])


@st.composite
def masked_assignments(draw: st.DrawFn) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """Draw `x[mask] = value` and its kin as PyTorch's exporter writes them: (model, data, mask)."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    masked = draw(st.integers(1, len(shape)))
    row = shape[masked:]
    value = draw(st.sampled_from([[], [1], [1] * len(row), row, [1, *row], [1] * (len(row) + 1)]))
    reduction = draw(st.sampled_from(["none", "add", "mul", "min", "max"]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    whole = (
        draw(st.booleans()) and len(row) > 0 and 1 not in row
    )  # rows of the mask are repeated, and the values are flat
    constants = {
        "value": random.normal(size=value).astype(np.float32),
        "all": np.array([-1], np.int64),
        "row": np.array(row, np.int64),
        "shape": np.array(shape, np.int64),
        "ones": np.array([*shape[:masked], *[1] * len(row)], np.int64),
    }
    nodes = [
        helper.make_node("Reshape", ["mask", "ones"], ["thin"]),
        helper.make_node("Expand", ["thin", "shape"], ["full"]),
        helper.make_node("NonZero", ["full" if whole else "mask"], ["found"]),
        helper.make_node("Transpose", ["found"], ["at"], perm=[1, 0]),
        helper.make_node("Cast", ["mask"], ["numbers"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["numbers", "all"], ["flat"]),
        helper.make_node("ReduceSum", ["flat"], ["count"], keepdims=1),
        helper.make_node("Concat", ["count", "row"], ["size"], axis=0),
        helper.make_node("Expand", ["value", "size"], ["values"]),
        helper.make_node("Reshape", ["values", "all"], ["series"]),
        helper.make_node("ScatterND", ["x", "at", "series" if whole else "values"], ["y"], reduction=reduction),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, shape[:masked]),
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_empty_tensor_value_info("y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model, random.normal(size=shape).astype(np.float32), random.random(shape[:masked]) < 0.5


@settings(deadline=None, max_examples=60, derandomize=True)
@given(masked_assignments())
def test_a_value_is_assigned_where_a_mask_is_true(case: tuple[onnx.ModelProto, np.ndarray, np.ndarray]) -> None:
    model, data, mask = case
    expanded = expand_operators(model)
    assert "ScatterND" not in {node.op_type for node in expanded.graph.node}
    feed = {"x": data, "mask": mask}
    np.testing.assert_array_equal(run_onnx(expanded, feed)[0], run_onnx(model, feed)[0])


@pytest.mark.compiler
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_elements_of_a_mask_are_changed(cpu: tvm.target.Target, share: float) -> None:
    """PyTorch's `x[mask] = x[mask] * 2`: its exporter repeats the values as often as the mask has true elements."""
    nodes = [
        helper.make_node("NonZero", ["mask"], ["found"]),
        helper.make_node("Transpose", ["found"], ["at"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "at"], ["old"]),
        helper.make_node("Add", ["old", "old"], ["new"]),
        helper.make_node("Reshape", ["mask", "all"], ["flat"]),
        helper.make_node("Cast", ["flat"], ["ones"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["ones"], ["count"], keepdims=1),
        helper.make_node("Expand", ["new", "count"], ["values"]),
        helper.make_node("Reshape", ["values", "all"], ["series"]),
        helper.make_node("ScatterND", ["x", "at", "series"], ["y"]),
    ]
    random = np.random.default_rng(0)
    feed = {"x": random.normal(size=(4, 5)).astype(np.float32), "mask": random.random((4, 5)) < share}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in feed.items()
    ]
    all_of_it = [numpy_helper.from_array(np.array([-1], np.int64), "all")]
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_empty_tensor_value_info("y")], all_of_it)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    got = build_here(lower(import_model(model, "net"), cpu), cpu)(feed)["y"]
    np.testing.assert_array_equal(got, np.where(feed["mask"], 2 * feed["x"], feed["x"]))


@pytest.mark.compiler
def test_a_sum_of_numbers_is_not_their_number(cpu: tvm.target.Target) -> None:
    """NonZero lists the numbers beside it that are not 0."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("ReduceSum", ["x"], ["y"], keepdims=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [4])
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in ("y", "found")]
    model = helper.make_model(helper.make_graph(nodes, "net", [x], ends), opset_imports=[helper.make_opsetid("", 18)])
    got = build_here(lower(import_model(model, "net"), cpu), cpu)({"x": np.array([2, 3, 0, 5])})
    np.testing.assert_array_equal(got["y"], [10])


def test_values_whose_number_cannot_be_followed_are_named() -> None:
    """A random value for each place: the message names the operator that makes them, not the one that reads them."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("Transpose", ["found"], ["at"], perm=[1, 0]),
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["whole"], ["count"], keepdims=1),
        helper.make_node("Expand", ["v", "count"], ["values"], name="many"),
        helper.make_node("ScatterND", ["x", "at", "values"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])
    v = helper.make_tensor_value_info("v", TensorProto.FLOAT, [5])
    graph = helper.make_graph(nodes, "net", [x, v], [helper.make_empty_tensor_value_info("y")])
    with pytest.raises(TvmbuildError, match=r"Expand \(node 'many'\)"):
        import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), "net")
