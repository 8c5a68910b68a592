"""Operators in the forms of files before opset 13, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import helper

from tvmbuild.compiler.evaluate import build_here
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.pipeline import lower

pytestmark = pytest.mark.compiler
SaveModel = Callable[..., Path]
Shape = tuple[int, ...]

PICTURE = (1, 2, 7, 8)
SLICES: tuple[Mapping[str, Sequence[int]], ...] = (
    {"starts": [1, 2], "ends": [2, -2], "axes": [1, 3]},
    {"starts": [0, 1], "ends": [1, 2]},
    {"starts": [-3], "ends": [2**63 - 1], "axes": [2]},
)
SCALES = ((1, 1, 2, 3), (1, 1, 1.5, 2.5), (1, 1, 0.6, 0.5), (1, 1, 2, 0.5), (1, 1, 1, 1), (2, 1, 1, 2), (1, 1, 3))
POOLS: tuple[tuple[Shape, list[int], list[int]], ...] = (
    (PICTURE, [3, 3], [2, 2]),
    (PICTURE, [2, 3], [3, 2]),
    ((1, 2, 9), [3], [2]),
    ((1, 2, 4, 5, 7), [2, 2, 2], [2, 1, 3]),
)


@pytest.fixture
def compare(save_model: SaveModel, cpu: tvm.target.Target) -> Callable[..., None]:
    """Return a function that compares one node's numbers with ONNX Runtime's."""

    def run(
        operator: str,
        shape: Shape,
        opset: int,
        *constants: np.ndarray[Any, Any],
        tolerance: float = 0,
        **attributes: Any,
    ) -> None:
        names = [f"c{place}" for place in range(len(constants))]
        node = helper.make_node(operator, ["x", *names], ["y"], **attributes)
        path = save_model([node], dict(zip(names, constants, strict=True)), shape, opset)
        data = np.random.RandomState(0).uniform(-1, 1, shape).astype(np.float32)
        (want,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
        got = build_here(lower(import_onnx(path), cpu), cpu)({"x": data})["y"]
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

    return run


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("bounds", SLICES)
def test_slices_between_attributes(
    compare: Callable[..., None], bounds: Mapping[str, Sequence[int]], opset: int
) -> None:
    compare("Slice", PICTURE, opset, **bounds)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_upsample_and_the_first_resize(compare: Callable[..., None], scales: tuple[float, ...], mode: str) -> None:
    shape = PICTURE[: len(scales)]
    if mode == "linear" and (scales[0] != 1 or len(shape) == 3):
        shape, scales = shape[-2:], scales[-2:]  # ONNX Runtime interpolates along two axes
    given = np.array(scales, np.float32)
    compare("Resize", shape, 10, given, mode=mode, tolerance=1e-6)
    if min(scales) >= 1:  # otherwise it is not an Upsample
        compare("Upsample", shape, 9, given, mode=mode, tolerance=1e-6)
        compare("Upsample", shape, 8, scales=list(map(float, scales)), mode=mode, tolerance=1e-6)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("rule", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_pools_with_padding_by_a_rule(
    compare: Callable[..., None], operator: str, pool: tuple[Shape, list[int], list[int]], rule: str
) -> None:
    shape, kernel, strides = pool
    tolerance = 0 if operator == "MaxPool" else 1e-5
    compare(operator, shape, 12, kernel_shape=kernel, strides=strides, auto_pad=rule, tolerance=tolerance)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_one_hot_has_the_type_of_its_values(save_model: SaveModel, cpu: tvm.target.Target, kind: type) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=7),
        helper.make_node("OneHot", ["i", "d", "v"], ["h"], axis=0),
        helper.make_node("Mul", ["h", "t"], ["t2"]),
        helper.make_node("Cast", ["t2"], ["y"], to=1),
    ]
    weights = {"d": np.array(5), "v": np.array([2, 7], kind), "t": np.array(3, kind)}
    path = save_model(nodes, weights, (4,), 11)
    data = np.array([0, 2, -2, 4], np.float32)
    (want,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": data})
    np.testing.assert_array_equal(build_here(lower(import_onnx(path), cpu), cpu)({"x": data})["y"], want)
