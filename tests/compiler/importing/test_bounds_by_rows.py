"""Operators that compute each row by itself, after a mask: right for any number of rows, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from counted_chains import COLUMNS, PRODUCERS, ROWS, feeds
from counted_graphs import Graph, build, check
from onnx import TensorProto

from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
Way = Callable[[Graph, str], Any]


def _picture(graph: Graph, value: str, shape: tuple[int, ...]) -> str:
    return str(graph.add("Reshape", value, graph.constant([-1, *shape])))


def _sampled(graph: Graph, value: str) -> str:
    """Read a map at two points of each row, a few of them outside the map."""
    found = graph.constant(np.random.RandomState(0).uniform(-1, 1, (1, 3, 5, 6)), np.float32)
    points = graph.add("Sub", graph.add("Mul", value, graph.constant(2.5, np.float32)), graph.constant(1, np.float32))
    grid = graph.add("Reshape", points, graph.constant([1, -1, 2, 2]))
    return str(graph.add("GridSample", found, grid, mode="bilinear", align_corners=1))


def _quantised(graph: Graph, value: str) -> str:
    limits = graph.constant([0.01] * COLUMNS, np.float32), graph.constant(range(COLUMNS), np.uint8)
    return str(graph.add("DequantizeLinear", graph.add("QuantizeLinear", value, *limits, axis=1), *limits, axis=1))


def _labelled(graph: Graph, value: str) -> str:
    label = graph.add("ArgMax", value, axis=1, keepdims=0)
    one_hot = graph.add("OneHot", label, graph.constant(COLUMNS), graph.constant([0, 1], np.float32), axis=0)
    return str(graph.add("CastLike", one_hot, value))


def _normalised(graph: Graph, value: str) -> str:
    weights = graph.constant(np.linspace(0.5, 1, COLUMNS), np.float32), graph.constant([0.1] * COLUMNS, np.float32)
    return str(graph.add("LayerNormalization", value, *weights, axis=-1))


def _multiplied(graph: Graph, value: str) -> str:
    steps = graph.add("Cast", graph.add("Mul", value, graph.constant(50, np.float32)), to=TensorProto.UINT8)
    weights = graph.constant(np.arange(COLUMNS**2).reshape(COLUMNS, COLUMNS), np.uint8)
    return str(graph.add("Cast", graph.add("MatMulInteger", steps, weights), to=TensorProto.FLOAT))


WAYS: dict[str, Way] = {
    "GridSample": _sampled,
    "LayerNormalization": _normalised,
    "MatMulInteger": _multiplied,
    "OneHot": _labelled,
    "QuantizeLinear": _quantised,
    "DepthToSpace": lambda graph, value: graph.add("DepthToSpace", _picture(graph, value, (4, 1, 1)), blocksize=2),
    "GlobalLpPool": lambda graph, value: graph.add("GlobalLpPool", _picture(graph, value, (1, 2, 2))),
    "Hardmax": lambda graph, value: graph.add("Hardmax", value, axis=1),
    "LRN": lambda graph, value: graph.add("LRN", _picture(graph, value, (2, 2, 1)), size=3),
    "MeanVarianceNormalization": lambda graph, value: graph.add(
        "MeanVarianceNormalization", _picture(graph, value, (1, 2, 2)), axes=[2, 3]
    ),
    "Resize": lambda graph, value: graph.add(
        "Resize", _picture(graph, value, (1, 2, 2)), "", graph.constant([1, 1, 2, 2], np.float32), mode="linear"
    ),
    "SpaceToDepth": lambda graph, value: graph.add("SpaceToDepth", _picture(graph, value, (1, 2, 2)), blocksize=2),
}


def _behind_a_mask(way: Way) -> Any:
    graph = Graph()
    found = PRODUCERS["mask"](graph, graph.take("data", [ROWS, COLUMNS]))
    return graph.finish({way(graph, found): TensorProto.FLOAT})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("operator", WAYS)
def test_rows_are_computed_alone(operator: str) -> None:
    check(_behind_a_mask(WAYS[operator]), feeds(3))


ACROSS: dict[str, Way] = {
    "GridSample": lambda graph, value: graph.add(
        "GridSample",
        graph.add("Reshape", value, graph.constant([1, 1, -1, 2])),
        graph.constant(np.zeros((1, 2, 2, 2)), np.float32),
    ),
    "Hardmax": lambda graph, value: graph.add("Hardmax", value, axis=0),
    "MeanVarianceNormalization": lambda graph, value: graph.add(
        "MeanVarianceNormalization", _picture(graph, value, (1, 2, 2))
    ),
    "Resize": lambda graph, value: graph.add("Resize", value, "", graph.constant([2, 1], np.float32)),
}


@pytest.mark.parametrize("operator", ACROSS)
def test_what_reads_across_rows_is_refused(operator: str) -> None:
    with pytest.raises(TvmbuildError, match=f"the operator {operator} .*depends on data"):
        build(_behind_a_mask(ACROSS[operator]))


def test_a_pool_without_a_batch_is_told_once() -> None:
    """PyTorch's older exporter writes it, and ONNX Runtime refuses it; the NonZero after it is not the cause."""
    graph = Graph()
    pooled = graph.add("MaxPool", graph.take("heat", [1, 8, 8]), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    found = graph.add("NonZero", pooled)
    with pytest.raises(TvmbuildError, match="its window has 2 axes") as raised:
        build(graph.finish({found: TensorProto.INT64}))
    assert "NonZero" not in str(raised.value)
    assert "dynamo=True" in str(raised.value)
