"""MaxPool with its places: the nodes that replace it find the same elements as ONNX Runtime, also among equal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from quantized_nodes import run_built, run_onnx

from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.errors import TvmbuildError


def make_model(shape: tuple[int, ...], dtype: type = np.float32, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node("MaxPool", ["x"], ["y", "places"], **attributes)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "net", [x], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def draw_ties(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """Return data with few different values, so that most windows have several maxima."""
    low = 0 if np.dtype(dtype).kind == "u" else -3
    return np.random.default_rng(0).integers(low, 3, shape).astype(dtype)


def check(model: onnx.ModelProto, data: np.ndarray) -> None:
    expanded = expand_operators(model)
    assert all(len(node.output) == 1 for node in expanded.graph.node)
    compare(run_onnx(expanded, {"x": data}), run_onnx(model, {"x": data}), data)


def compare(got: Sequence[np.ndarray], want: Sequence[np.ndarray], data: np.ndarray) -> None:
    """Assert that maxima and places are equal.

    Maxima of -inf and NaN are not compared: ONNX Runtime's MaxPool without places begins at the smallest number.
    """
    np.testing.assert_array_equal(got[1], want[1])
    if np.isfinite(data).all():
        np.testing.assert_array_equal(got[0], want[0])


@st.composite
def pools(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    rank = draw(st.integers(1, 3))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, dilations, strides = each(1, 3), each(1, 2), each(1, 3)
    reach = [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
    sizes = [size + more for size, more in zip(reach, each(0, 5), strict=True)]
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *sizes)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    form = draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if form == "pads":
        pads = [draw(st.integers(0, taps - 1)) for taps in kernel * 2]
        attributes |= {"pads": pads, "ceil_mode": draw(st.integers(0, 1))}
    else:
        attributes |= {"auto_pad": form, "dilations": [1] * rank}
        attributes["strides"] = [min(pair) for pair in zip(kernel, strides, strict=True)]  # else ORT's padding is < 0
    return shape, attributes | {"storage_order": draw(st.integers(0, 1))}


@given(pools())
@settings(max_examples=60, deadline=None)
def test_places(drawn: tuple[tuple[int, ...], dict[str, Any]]) -> None:
    shape, attributes = drawn
    model = make_model(shape, **attributes)
    model.opset_import[0].version = 22  # the first in which ONNX infers the lengths of ceil_mode right
    check(model, draw_ties(shape))


PADDED: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}


@pytest.mark.parametrize(
    ("dtype", "least"), [(np.uint8, 0), (np.int8, -128), (np.float32, -np.inf), (np.float32, np.nan)]
)
@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
def test_places_are_not_in_the_padding(dtype: type, least: float, storage_order: int, dilation: int) -> None:
    """Padding is not found in the place of data that have the smallest value of their type."""
    data: np.ndarray = np.full((1, 2, 8, 7), least, dtype)
    model = make_model(data.shape, dtype, **PADDED, storage_order=storage_order, dilations=[dilation] * 2)
    check(model, data)
    data[0, 0, 4, 4] = 3
    check(model, data)


@pytest.mark.compiler
@pytest.mark.parametrize(("dtype", "least"), [(np.uint8, 0), (np.float32, -np.inf), (np.float32, -1)])
def test_compiled_places(cpu: tvm.target.Target, dtype: type, least: float) -> None:
    data: np.ndarray = np.full((1, 2, 8, 7), least, dtype)
    data[0, 1, 3:, 4:] = 3
    model = make_model(data.shape, dtype, **PADDED)
    compare(run_built(model, {"x": data}, cpu), run_onnx(model, {"x": data}), data)


@pytest.mark.compiler
def test_windows_that_begin_in_the_padding_are_left_out(cpu: tvm.target.Target) -> None:
    data = np.array([[[1, 2, 3]]], np.float32)
    model = make_model(data.shape, kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1)
    compare(run_built(model, {"x": data}, cpu), run_onnx(model, {"x": data}), data)


@pytest.mark.parametrize(
    ("opset", "kernel", "message"),
    [(10, [2, 2], "the model's opset 10 compares no floats"), (17, [14, 13], "a window of 182 elements")],
)
def test_pools_that_are_refused(opset: int, kernel: list[int], message: str) -> None:
    model = make_model((1, 1, 20, 20), kernel_shape=kernel)
    model.opset_import[0].version = opset
    with pytest.raises(TvmbuildError, match=message) as caught:
        import_model(model, "net")
    assert caught.value.hint


def test_an_older_model_can_be_converted() -> None:
    model = make_model((1, 8, 12, 12), kernel_shape=[2, 2])
    model.opset_import[0].version = 10
    newer = onnx.version_converter.convert_version(model, 17)
    check(newer, draw_ties((1, 8, 12, 12)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_places_of_bytes(dtype: type) -> None:
    shape = (1, 2, 7, 6)
    check(make_model(shape, dtype, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), draw_ties(shape, dtype))


def test_importer_builds_places() -> None:
    model = make_model((1, 8, 12, 12), kernel_shape=[2, 2], strides=[2, 2])
    outputs = import_model(model, "net").outputs
    assert [(each.shape, each.dtype) for each in outputs] == [((1, 8, 6, 6), "float32"), ((1, 8, 6, 6), "int64")]


def test_windows_in_the_padding_at_the_end_are_left_out() -> None:
    model = make_model((1, 1, 3), kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1)
    _, places = run_onnx(model, {"x": draw_ties((1, 1, 3))})
    assert import_model(model, "net").outputs[1].shape == places.shape == (1, 1, 2)


def test_pools_without_places_stay() -> None:
    model = make_model((1, 8, 12, 12), kernel_shape=[2, 2])
    del model.graph.node[0].output[1:]
    del model.graph.output[1:]
    assert expand_operators(model) is model
    assert model.graph.output[0].type.tensor_type.elem_type == TensorProto.UNDEFINED
