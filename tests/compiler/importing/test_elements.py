"""Det, Col2Im and Compress: the nodes that replace them compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from quantized_nodes import run_onnx

from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.importer import import_model
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
