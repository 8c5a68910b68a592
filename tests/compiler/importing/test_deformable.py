"""DeformConv: the nodes that replace it compute the same as ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from quantized_nodes import run_onnx

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.expand.expand import expand_operators
from tvmbuild.compiler.importing.float16 import add_up_in_float32
from tvmbuild.compiler.importing.importer import import_model
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import lower
from tvmbuild.errors import TvmbuildError


def make_model(
    shape: Sequence[int],
    weights: Sequence[int],
    size: Sequence[int],
    optional: Sequence[str] = ("bias", "mask"),
    opset: int = 19,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a deformable convolution of ``shape`` with offsets for outputs of ``size``."""
    places = attributes.get("offset_group", 1) * int(np.prod(weights[2:]))
    shapes = {
        "x": shape,
        "offset": (shape[0], len(size) * places, *size),
        "mask": (shape[0], places, *size),
    }
    names = ["x", "weights", "offset", *(name if name in optional else "" for name in ("bias", "mask"))]
    node = helper.make_node("DeformConv", names, ["y"], **attributes)
    random = np.random.default_rng(0)
    constants = {"weights": random.normal(size=weights), "bias": random.normal(size=weights[:1])}
    graph = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in shapes if name in names],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(constants[name].astype(np.float32), name) for name in constants if name in names],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("opset", [19, 22])
@pytest.mark.parametrize(
    ("shape", "weights", "size", "attributes"),
    [
        ((1, 4, 9, 7), (6, 4, 3, 3), (9, 7), {"pads": [1, 1, 1, 1]}),
        ((2, 4, 9, 8), (6, 4, 3, 2), (4, 4), {"pads": [1, 0, 0, 1], "strides": [2, 2]}),
        ((1, 4, 9, 8), (8, 2, 3, 3), (5, 4), {"group": 2, "offset_group": 2, "dilations": [2, 2]}),
        ((2, 6, 1, 8), (3, 6, 1, 3), (1, 8), {"pads": [0, 1, 0, 1], "offset_group": 3}),
    ],
)
def test_deformable(
    shape: Sequence[int], weights: Sequence[int], size: Sequence[int], attributes: dict[str, Any], opset: int
) -> None:
    model = make_model(shape, weights, size, opset=opset, **attributes)
    random = np.random.default_rng(1)
    data = {
        value.name: (3 if value.name == "offset" else 1)  # some places are outside the picture
        * random.normal(size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }
    expanded = expand_operators(model)
    assert "DeformConv" not in {node.op_type for node in expanded.graph.node}
    (got,), (want,) = run_onnx(expanded, data), run_onnx(model, data)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert import_model(model, "net").outputs[0].shape == want.shape


def test_without_mask_and_bias() -> None:
    model = make_model((1, 4, 9, 7), (6, 4, 3, 3), (7, 5), optional=())
    random = np.random.default_rng(1)
    data = {
        "x": random.normal(size=(1, 4, 9, 7)).astype(np.float32),
        "offset": random.normal(size=(1, 18, 7, 5)).astype(np.float32),
    }
    (got,), (want,) = run_onnx(expand_operators(model), data), run_onnx(model, data)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_signals_are_refused() -> None:
    with pytest.raises(TvmbuildError, match=r"its data have 3 axes"):
        expand_operators(make_model((1, 4, 9), (6, 4, 3), (7,)))


def make_wide(kind: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model that moves the pixels of a wide picture by the results of a product, and its inputs."""
    dtype, random = helper.tensor_dtype_to_np_dtype(kind), np.random.default_rng(0)
    data = {
        "x": random.integers(-8, 8, (1, 1, 3, 200)).astype(dtype),
        "o": (random.integers(-64, 64, (1, 2, 3, 200)) / 64).astype(dtype),  # exact in float16
    }
    constants = {"w": np.eye(2).reshape(2, 2, 1, 1), "weights": np.ones((1, 1, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["o", "w"], ["offset"]),
        helper.make_node("DeformConv", ["x", "weights", "offset"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, kind, value.shape) for name, value in data.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value.astype(dtype), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=9), data


@pytest.mark.compiler
def test_places_are_exact_in_fp16(cpu: tvm.target.Target) -> None:
    """In 16 bits, places at the right of the picture would be off by a twentieth of a pixel."""
    model, data = make_wide(TensorProto.FLOAT)
    narrow = reduce_precision(import_model(model, "net"), "fp16", "llvm")
    (got,), (want,) = build_here(lower(narrow, cpu), cpu)(data).values(), run_onnx(model, data)
    np.testing.assert_allclose(got, want, rtol=0, atol=0.01)


def test_places_of_float16_files_are_float32() -> None:
    model, data = make_wide(TensorProto.FLOAT16)
    wide, _ = make_wide(TensorProto.FLOAT)
    (got,) = run_onnx(add_up_in_float32(expand_operators(model)), data)
    (want,) = run_onnx(wide, {name: value.astype(np.float32) for name, value in data.items()})
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, want, rtol=0, atol=0.01)
    assert import_model(model, "net", for_gpu=True).outputs[0].dtype == "float16"
