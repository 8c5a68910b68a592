"""Masks, keypoints, maps, texts, vectors and heatmaps of drawn outputs: compared with plain NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from detector_nets import decode, draw_outputs, select
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws
from result_functions import Placement, compile_result, draw_instances, find_points, read_text, segment

from tvmbuild.base.frame_specs import Crop
from tvmbuild.base.postprocess_specs import BOX_FORMS, Heatmaps, Keypoints, Masks, Segmentation, Text, Vector
from tvmbuild.package.preprocess import Fit

pytestmark = pytest.mark.compiler
SIZE = (480, 640)
FORMS = sorted(name for name, form in BOX_FORMS.items() if not form.split and not form.strides)
DRAWN = settings(max_examples=draws(15), deadline=None)
SEEDS = st.integers(0, 1 << 30)


def form_of(*arrays: np.ndarray) -> list[tuple[tuple[int, ...], str]]:
    return [(each.shape, str(each.dtype)) for each in arrays]


@st.composite
def placements(draw: Any, size: tuple[int, int] = SIZE) -> Placement:
    """Return a frame, or a part of it, that is stretched, letterboxed, or cut at its left or upper border."""
    height, width = draw(st.integers(1, 90)), draw(st.integers(1, 120))
    across, down = draw(st.integers(size[1] // 2, size[1] * 2)), draw(st.integers(size[0] // 2, size[0] * 2))
    left, top = draw(st.sampled_from([0, (size[1] - across) // 2])), draw(st.sampled_from([0, (size[0] - down) // 2]))
    crop = None
    if draw(st.booleans()):
        rows, columns = draw(st.integers(1, height)), draw(st.integers(1, width))
        crop = Crop(draw(st.integers(0, height - rows)), draw(st.integers(0, width - columns)), rows, columns)
    return Placement(height, width, Fit(left, top, across, down), size, crop)


def map_sizes(size: tuple[int, int]) -> st.SearchStrategy[tuple[int, int]]:
    """Return rows and columns of a map with the proportions of the input; a network may round by a cell."""
    (height, width), slack = size, max(size)

    def columns(rows: int) -> st.SearchStrategy[tuple[int, int]]:
        fewest = max(1, -(-(rows * width - slack) // height))
        return st.tuples(st.just(rows), st.integers(fewest, (rows * width + slack) // height))

    return st.integers(1, 30).flatmap(columns)


def add_values(outputs: list[np.ndarray], form: str, more: np.ndarray) -> np.ndarray:
    """Return the first output with more values [boxes, values] after its own."""
    is_columns = BOX_FORMS[form].layout == "columns"
    added = (more.T if is_columns else more)[None].astype(np.float32)
    return np.concatenate([outputs[0], added], axis=1 if is_columns else 2)


@DRAWN
@given(placements(), st.sampled_from(FORMS), st.integers(5, 40), st.integers(1, 5), st.integers(1, 12), SEEDS)
def test_masks(placed: Placement, form: str, count: int, classes: int, coefficients: int, seed: int) -> None:  # noqa: PLR0917
    generator = np.random.default_rng(seed)
    outputs = draw_outputs(form, count, classes, generator)
    kept = generator.normal(size=(count, coefficients))
    shape = (1, coefficients, int(generator.integers(1, 30)), int(generator.integers(1, 40)))
    prototypes = generator.normal(size=shape).astype(np.float32)
    asked = Masks(form, score=0.3, overlap=0.5, most=12)
    first = add_values(outputs, form, kept)
    run = compile_result(asked, form_of(first, prototypes), placed)
    rows, drawn = run([first, prototypes], (asked.score, asked.overlap))

    boxes, scores, numbers = decode(BOX_FORMS[form], outputs, SIZE)
    want = select(asked, (boxes, scores, numbers))
    assert rows[0, 0] == len(want)
    np.testing.assert_allclose(rows[1 : 1 + len(want), 4], [score for score, _, _ in want], rtol=1e-5)
    chosen = [next(i for i in range(count) if tuple(boxes[i].tolist()) == box) for _, _, box in want]
    values = np.einsum(
        "nc,chw->nhw", kept.astype(np.float32)[chosen].astype(np.float64), prototypes[0].astype(np.float64)
    )
    found, distance = draw_instances(placed, boxes[chosen].reshape(-1, 4), values)
    sure = distance > 1e-3
    np.testing.assert_array_equal(drawn[sure], found[sure])


@DRAWN
@given(placements(), st.sampled_from(FORMS), st.integers(2, 40), st.integers(1, 6), st.sampled_from([2, 3]), SEEDS)
def test_keypoints(placed: Placement, form: str, count: int, points: int, values: int, seed: int) -> None:  # noqa: PLR0917
    generator = np.random.default_rng(seed)
    outputs = draw_outputs(form, count, 2, generator)
    points_in = generator.uniform(0, 700, (count, points, values))
    asked = Keypoints(form, score=0.3, overlap=0.5, most=12, points=points, values=values)
    first = add_values(outputs, form, points_in.reshape(count, -1))
    (rows,) = compile_result(asked, form_of(first), placed)([first], (asked.score, asked.overlap))
    boxes, scores, numbers = decode(BOX_FORMS[form], outputs, SIZE)
    want = select(asked, (boxes, scores, numbers))
    chosen = [next(i for i in range(count) if tuple(boxes[i].tolist()) == box) for _, _, box in want]
    expected = points_in[chosen].copy()
    for axis, (size, begin, used, offset, length) in enumerate(placed.list_sides()[::-1]):
        expected[..., axis] = np.clip((expected[..., axis] - offset) * used / length + begin, 0, size)
    got = rows[1 : 1 + int(rows[0, 0]), 6:].reshape(-1, points, values)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)


@DRAWN
@given(
    placements((48, 64)),
    st.integers(1, 24),
    map_sizes((48, 64)),
    st.sampled_from(["bilinear", "nearest"]),
    st.sampled_from(["none", "sigmoid"]),
    SEEDS,
)
def test_segmentation(  # noqa: PLR0917 - each is drawn
    placed: Placement, classes: int, size: tuple[int, int], interpolation: Any, activation: Any, seed: int
) -> None:
    generator, (height, width) = np.random.default_rng(seed), size
    smooth = np.repeat(np.repeat(generator.normal(size=(classes, 1 + height // 4, 1 + width // 4)), 4, 1), 4, 2)
    scores = (smooth[:, :height, :width] + 0.1 * generator.normal(size=(classes, height, width))).astype(np.float32)
    asked = Segmentation(interpolation=interpolation, activation=activation, score=0.4)
    (drawn,) = compile_result(asked, form_of(scores[None]), placed)([scores[None]], (asked.score, 1))
    want, lead = segment(placed, asked, scores)
    assert drawn.shape == (placed.height, placed.width)
    np.testing.assert_array_equal(drawn[lead > 1e-4], want[lead > 1e-4])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_classes_of_pixels(dtype: str) -> None:
    placed = Placement(10, 12, Fit(0, 0, 64, 48), (48, 64))
    classes = np.random.default_rng(0).integers(0, 200, (1, 24, 32)).astype(dtype)
    (drawn,) = compile_result(Segmentation(), form_of(classes), placed)([classes], (0.5, 1))
    want, _ = segment(placed, Segmentation(interpolation="nearest"), np.concatenate([classes, classes - 1000.0]))
    rows, columns = (np.floor((np.arange(n) + 0.5) * m / n).astype(int) for n, m in ((10, 24), (12, 32)))
    np.testing.assert_array_equal(drawn, classes[0][np.ix_(rows, columns)])
    assert want.shape == drawn.shape


@DRAWN
@given(st.integers(1, 60), st.integers(2, 200), st.booleans(), st.booleans(), st.booleans(), SEEDS)
def test_text(steps: int, symbols: int, softmax: bool, last: bool, columns: bool, seed: int) -> None:  # noqa: PLR0917
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(steps, symbols)).astype(np.float32)
    blank = symbols - 1 if last else 0
    scores[generator.random(steps) < 0.3, blank] = 5
    repeated = np.flatnonzero(generator.random(steps) < 0.3)
    scores[repeated] = scores[np.maximum(repeated - 1, 0)]
    shaped = scores[:, None] if columns else scores[None]
    asked = Text(activation="softmax" if softmax else "none", blank="last" if last else "first")
    (rows,) = compile_result(asked, form_of(shaped), Placement(1, 1, Fit(0, 0, 1, 1), (8, 8)))([shaped], (1, 1))
    want = read_text(scores, blank, softmax=softmax)
    assert rows[0, 0] == len(want)
    assert rows[1 : 1 + len(want), 0].tolist() == [symbol for symbol, _ in want]
    np.testing.assert_allclose(rows[1 : 1 + len(want), 1], [score for _, score in want], rtol=1e-5)
    assert not rows[1 + len(want) :].any()


@DRAWN
@given(st.integers(1, 700), st.booleans(), SEEDS)
def test_vector(count: int, normalise: bool, seed: int) -> None:
    vector = np.random.default_rng(seed).normal(size=(1, count, 1, 1)).astype(np.float32)
    placed = Placement(1, 1, Fit(0, 0, 1, 1), (8, 8))
    (found,) = compile_result(Vector(normalise=normalise), form_of(vector), placed)([vector], (1, 1))
    exact = vector.astype(np.float64).ravel()
    np.testing.assert_allclose(found, exact / np.linalg.norm(exact) if normalise else exact, rtol=1e-5)


@DRAWN
@given(placements((256, 192)), st.integers(1, 20), map_sizes((256, 192)), SEEDS)
def test_heatmaps(placed: Placement, points: int, size: tuple[int, int], seed: int) -> None:
    maps = np.random.default_rng(seed).normal(size=(1, points, *size)).astype(np.float32)
    (rows,) = compile_result(Heatmaps(), form_of(maps), placed)([maps], (1, 1))
    assert rows[0].tolist() == [points, 0, 0]
    np.testing.assert_allclose(rows[1:], find_points(placed, maps[0]), rtol=1e-4, atol=1e-3)
