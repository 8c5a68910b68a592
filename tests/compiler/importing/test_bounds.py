"""Values whose length depends on data: chains of operators give what ONNX Runtime gives, whatever is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from counted_chains import PRODUCERS, WAYS, chain, feeds
from counted_graphs import Graph, build, check
from detector_tails import draw, torchvision, ultralytics
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from vulkan_kernels import lavapipe

from tvmbuild.errors import TvmbuildError

pytestmark = pytest.mark.compiler
Limits = list[tuple[list[float] | None, type]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("way", WAYS)
def test_a_way_behind_a_mask(way: str) -> None:
    check(chain("mask", [way]), feeds(1))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_producer(producer: str) -> None:
    check(chain(producer, []), feeds(2))


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(PRODUCERS)),
    st.lists(st.sampled_from(sorted(WAYS)), min_size=2, max_size=4),
    st.integers(0, 99),
)
def test_drawn_chains(producer: str, ways: list[str], seed: int) -> None:
    check(chain(producer, ways), feeds(seed))


def _suppress(boxes: np.ndarray, scores: np.ndarray, limits: Limits, target: Any = None, **attributes: int) -> None:
    graph = Graph()
    given = [graph.constant(values, dtype) if values is not None else "" for values, dtype in limits]
    names = [graph.take("boxes", list(boxes.shape)), graph.take("scores", list(scores.shape))]
    found = graph.add("NonMaxSuppression", *names, *given, **attributes)
    check(graph.finish({found: TensorProto.INT64}), [{"boxes": boxes, "scores": scores}], target)


def _draw_boxes(batches: int, classes: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    corners = random.uniform(0, 1, (batches, count, 4)).astype(np.float32)
    scores = random.randint(0, 9, (batches, classes, count)) / np.float32(9)  # many are equal
    return corners, scores.astype(np.float32)


LIMITS: dict[str, Limits] = {
    "most": [([5], np.int64)],
    "all": [([5], np.int64), ([0.3], np.float32), ([0.5], np.float32)],
    "no most": [([2**62], np.int64), ([0.2], np.float32)],
    "zero thresholds": [([9], np.int64), ([0.0], np.float32), ([0.0], np.float32)],
    "none kept": [([0], np.int64), ([0.3], np.float32)],
    "score alone": [([7], np.int64), (None, np.float32), ([0.4], np.float32)],
    "no limits": [],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("center", [0, 1])
def test_suppression(name: str, center: int) -> None:
    _suppress(*_draw_boxes(2, 3, 40, center), LIMITS[name], center_point_box=center)


def test_suppression_of_one_batch_and_class() -> None:
    _suppress(*_draw_boxes(1, 1, 60, 5), LIMITS["all"])


def test_suppression_of_boxes_without_an_area() -> None:
    boxes, scores = _draw_boxes(1, 2, 20, 6)
    boxes[:, ::3, 2] = boxes[:, ::3, 0]
    _suppress(boxes, scores, LIMITS["zero thresholds"])


@pytest.mark.parametrize("tail", [ultralytics, torchvision])
def test_the_end_of_a_detector(tail: Callable[[], onnx.ModelProto]) -> None:
    check(tail(), [draw(seed, highest) for seed, highest in enumerate((1, 0.4, 0.302, 0.2))])


@pytest.mark.vulkan
@pytest.mark.parametrize("tail", [ultralytics, torchvision])
def test_the_end_of_a_detector_on_a_gpu(tail: Callable[[], onnx.ModelProto]) -> None:
    check(tail(), [draw(seed, highest) for seed, highest in enumerate((1, 0.4, 0.2))], lavapipe())


@pytest.mark.vulkan
def test_several_batches_on_a_gpu() -> None:
    boxes, scores = _draw_boxes(2, 3, 300, 4)
    _suppress(boxes, scores, LIMITS["all"], target=lavapipe())


@pytest.mark.parametrize("operator", ["Squeeze", "Unsqueeze", "ReduceSum", "Pad", "CumSum", "Slice"])
def test_axes_that_depend_on_data(operator: str) -> None:
    """The axes are an input of the model, beside other inputs that have bounds."""
    graph = Graph()
    x, axis = graph.take("x", [1, 4]), graph.take("axis", [1], TensorProto.INT64)
    found = graph.add("NonZero", x)
    real = graph.add("Cast", found, to=TensorProto.FLOAT)
    ones, pair = graph.constant([1]), graph.constant([1, 1])
    given = {"Pad": [pair, "", axis], "Slice": [ones, ones, axis]}.get(operator, [axis])
    result = graph.add(operator, real, *given)
    with pytest.raises(TvmbuildError, match=f"{operator} .*depend"):
        build(graph.finish({result: TensorProto.FLOAT}))


def test_a_shape_without_a_bound() -> None:
    graph = Graph()
    sizes = graph.take("sizes", [3], TensorProto.INT64)
    filled = graph.add("ConstantOfShape", sizes)
    with pytest.raises(TvmbuildError, match="where sizes decides what it computes"):
        build(graph.finish({filled: TensorProto.FLOAT}))
