"""NonMaxSuppression on GPUs: ranked boxes, tile by tile, keep what ONNX Runtime keeps."""

from __future__ import annotations

import numpy as np
import pytest
from counted_graphs import Graph, build, expect
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from vulkan_kernels import lavapipe

from tvmbuild.compiler.kernels.counted import ranked_suppression
from tvmbuild.compiler.kernels.counted.ranked_suppression import RankedSuppression, write_ranked_suppression
from tvmbuild.compiler.kernels.counted.suppression import Suppression

TILE = 256 * 256 // 8
"""The bytes of the bits of a tile of 256 boxes."""
FORMS = {
    "one tile": (Suppression(1, 1, 300, 300, center=False, threshold=False), 1),
    "three tiles": (Suppression(1, 1, 700, 100, center=True, threshold=True), 3),
    "two tiles of several rows": (Suppression(2, 2, 270, 270, center=False, threshold=True), 2),
}


@pytest.mark.parametrize("boxes", [300, 100_000])
def test_four_kernels_however_many_tiles(boxes: int) -> None:
    form = Suppression(1, 1, boxes, boxes, center=False, threshold=True)
    assert (RankedSuppression(form).tiles > 1) == (boxes > 300)
    assert write_ranked_suppression(form).script().count('"blockIdx.x"') == 4


@pytest.mark.compiler
@pytest.mark.vulkan
@pytest.mark.parametrize("name", FORMS)
def test_drawn_boxes_on_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, tiles = FORMS[name]
    if tiles > 1:
        monkeypatch.setattr(ranked_suppression, "_MOST_BYTES", form.rows * TILE)
    assert RankedSuppression(form).tiles == tiles
    graph = Graph()
    taken = [graph.take("boxes", [form.batches, form.boxes, 4])]
    taken.append(graph.take("scores", [form.batches, form.classes, form.boxes]))
    limits = [graph.constant([form.kept]), graph.constant([0.4], np.float32)]
    limits += [graph.constant([0.3], np.float32)] if form.threshold else []
    found = graph.add("NonMaxSuppression", *taken, *limits, center_point_box=int(form.center))
    model = graph.finish({found: TensorProto.INT64})
    compute = build(model, lavapipe())

    @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**16), st.sampled_from([1, 4, 40]), st.sampled_from([5, 1000, 10**6]), st.floats(0, 1))
    def compare(seed: int, room: int, steps: int, likely: float) -> None:
        """Draw boxes in a room of some sizes of a box, and scores of so many steps, that many of them likely."""
        random = np.random.default_rng(seed)
        shape = (form.batches, form.boxes)
        place, size = random.uniform(0, room, (*shape, 2)), random.uniform(0.1, 1, (*shape, 2))
        corners = (place, size) if form.center else (place, place + size)
        scores = random.integers(1, steps, (form.batches, form.classes, form.boxes)) / steps
        scores = np.where(random.uniform(size=scores.shape) < likely, scores, 0.0)
        feed = {"boxes": np.concatenate(corners, axis=2), "scores": scores}
        feed = {key: value.astype(np.float32) for key, value in feed.items()}
        np.testing.assert_array_equal(compute(feed)[found], expect(model, feed)[found])

    compare()
