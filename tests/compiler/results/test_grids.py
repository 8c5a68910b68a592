"""Boxes of cells of grids, for drawn outputs of every form: compared with plain NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from detector_nets import select
from hypothesis import given, settings
from hypothesis import strategies as st
from nights import draws
from result_functions import Placement, compile_result

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import Boxes, Keypoints
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.preprocess import Fit

pytestmark = pytest.mark.compiler
SIZE = (64, 96)
PLACED = Placement(64, 96, Fit(0, 0, 96, 64), SIZE)
STRIDES = (8, 16)
ANCHORS = ((10.0, 13.0, 33.0, 23.0), (60.0, 45.0, 90.0, 70.0))
Candidates = tuple[np.ndarray, np.ndarray, np.ndarray]


def squash(values: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-values)))


def draw(form: str, classes: int, layout: str, generator: np.random.Generator) -> list[np.ndarray]:
    """Return outputs of a form, part by part, with cells as rows or as maps."""
    kinds = {"all": 2 * (5 + classes), "classes": classes, "objectness": 1, "points": 10, "sizes": 2, "offsets": 2}
    kinds["boxes"] = 4 * 8 if form == "nanodet" else 4
    outputs = []
    for part in GRID_FORMS[form].parts:
        for stride in STRIDES:
            rows, columns = SIZE[0] // stride, SIZE[1] // stride
            values = generator.normal(0, 1, (rows * columns, kinds[part]))
            if part in {"classes", "objectness"} and form in {"yunet", "nanodet"}:
                values = squash(values)
            if part == "sizes":
                values = np.abs(values) * 3
            found = values.astype(np.float32)
            if layout == "map":
                outputs.append(np.ascontiguousarray(found.T).reshape(1, -1, rows, columns))
            elif layout == "anchors" and part == "all":
                outputs.append(np.ascontiguousarray(found.reshape(rows * columns, 2, -1).transpose(1, 0, 2))[None])
                outputs[-1] = outputs[-1].reshape(1, 2, rows, columns, -1)
            else:
                outputs.append(found[None])
    return outputs


def as_rows(output: np.ndarray, cells: int, layout: str) -> np.ndarray:
    """Return an output as [cells, values], float64."""
    exact: np.ndarray = output.astype(np.float64)
    if layout == "map":
        return np.transpose(exact.reshape(-1, cells))
    if layout == "anchors" and output.ndim == 5:
        return np.concatenate(exact.reshape(2, cells, -1), axis=1)
    return exact.reshape(cells, -1)


def decode(form: str, outputs: list[np.ndarray], layout: str) -> tuple[Candidates, np.ndarray]:
    """Return boxes, scores and classes of all candidates, and their points, as the networks' own code has them."""
    boxes: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    points: list[np.ndarray] = []
    for level, stride in enumerate(STRIDES):
        rows, columns = SIZE[0] // stride, SIZE[1] // stride
        y, x = (each.ravel() for each in np.mgrid[:rows, :columns])
        parts = [as_rows(each, rows * columns, layout) for each in outputs[level :: len(STRIDES)]]
        if form in {"yolov3_raw", "yolov5_raw"}:
            for number in range(2):
                anchor = np.reshape(ANCHORS[level], (-1, 2))[number]
                own = parts[0].reshape(rows * columns, 2, -1)[:, number]
                near = squash(own[:, :2])
                if form == "yolov3_raw":
                    centre, sides = near + np.stack([x, y], 1), np.exp(own[:, 2:4]) * anchor
                else:
                    centre, sides = near * 2 - 0.5 + np.stack([x, y], 1), (2 * squash(own[:, 2:4])) ** 2 * anchor
                boxes.append(np.concatenate([centre * stride - sides / 2, centre * stride + sides / 2], 1))
                scores.append(squash(own[:, 4:5]) * squash(own[:, 5:]))
        elif form == "yunet":
            kinds, likely, box, found = parts
            centre, sides = (box[:, :2] + np.stack([x, y], 1)) * stride, np.exp(box[:, 2:]) * stride
            boxes.append(np.concatenate([centre - sides / 2, centre + sides / 2], 1))
            scores.append(np.sqrt(kinds * likely))
            points.append((found.reshape(-1, 5, 2) + np.stack([x, y], 1)[:, None]) * stride)
        elif form == "nanodet":
            weights = np.exp(parts[1].reshape(-1, 4, 8))
            far = (weights / weights.sum(-1, keepdims=True)) @ np.arange(8) * stride
            centre = np.stack([x + 0.5, y + 0.5], 1) * stride
            boxes.append(np.concatenate([centre - far[:, :2], centre + far[:, 2:]], 1))
            scores.append(parts[0])
        else:
            kinds, sizes, offsets = parts
            padded = np.pad(kinds.reshape(rows, columns, -1), ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
            around = [padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
            peak = kinds.reshape(rows, columns, -1) == np.max(around, axis=0)
            best = np.take_along_axis(peak.reshape(len(kinds), -1), kinds.argmax(1)[:, None], 1)
            centre, sides = (np.stack([x, y], 1) + offsets) * stride, sizes * stride
            boxes.append(np.concatenate([centre - sides / 2, centre + sides / 2], 1))
            scores.append(squash(kinds) * best if GRID_FORMS[form].sigmoid else kinds * best)
    values = np.concatenate(scores)
    candidates: Candidates = (np.concatenate(boxes), values.max(1), values.argmax(1))
    return candidates, np.concatenate(points) if points else np.zeros((len(values), 0, 2))


@settings(max_examples=draws(30), deadline=None)
@given(
    st.sampled_from(sorted(GRID_FORMS)),
    st.integers(1, 20),
    st.sampled_from(["rows", "map", "anchors"]),
    st.integers(0, 1 << 30),
)
def test_grids(form: str, classes: int, layout: str, seed: int) -> None:
    outputs = draw(form, classes, layout, np.random.default_rng(seed))
    anchors = ANCHORS if GRID_FORMS[form].with_anchors else ()
    asked = Boxes(form, score=0.4, overlap=0.5, most=20, anchors=anchors)
    run = compile_result(asked, [(each.shape, "float32") for each in outputs], PLACED)
    (rows,) = run(outputs, (asked.score, asked.overlap))
    candidates, _ = decode(form, outputs, layout)
    want = select(asked, candidates)
    got = rows[1 : 1 + int(rows[0, 0])]
    assert len(got) == len(want)
    np.testing.assert_allclose(got[:, 4], [score for score, _, _ in want], rtol=1e-4)
    assert got[:, 5].tolist() == [kind for _, kind, _ in want]
    clipped = np.array([np.clip(box, 0, [96, 64] * 2) for _, _, box in want]).reshape(-1, 4)
    np.testing.assert_allclose(got[:, :4], clipped, rtol=1e-4, atol=1e-2)


def test_points_of_grids() -> None:
    outputs = draw("yunet", 1, "rows", np.random.default_rng(3))
    asked = Keypoints("yunet", score=0.6, overlap=0.5, most=20, points=5, values=2)
    (rows,) = compile_result(asked, [(each.shape, "float32") for each in outputs], PLACED)(outputs, (0.6, 0.5))
    candidates, points = decode("yunet", outputs, "rows")
    want = select(asked, candidates)
    numbers = [next(i for i, box in enumerate(candidates[0].tolist()) if tuple(box) == each[2]) for each in want]
    got = rows[1 : 1 + int(rows[0, 0]), 6:].reshape(-1, 5, 2)
    np.testing.assert_allclose(got, np.clip(points[numbers], 0, [96, 64]), rtol=1e-4, atol=1e-2)


def test_points_that_a_grid_does_not_have() -> None:
    outputs = draw("yunet", 1, "rows", np.random.default_rng(3))
    with pytest.raises(TvmbuildError, match=r"has 5 points of 2 values; `keypoints` asks for 17 of 3") as caught:
        compile_result(Keypoints("yunet"), [(each.shape, "float32") for each in outputs], PLACED)
    assert caught.value.hint == "state `points: 5, values: 2`"


REFUSED: list[tuple[str, list[tuple[int, ...]], dict[str, Any], str]] = [
    ("yunet", [(1, 96, 1)] * 3, {}, r"needs outputs for classes, objectness, boxes, points of each grid; net .* 3"),
    ("yolov3_raw", [(1, 14, 8, 12)], {}, r"needs `anchors` for each of 1 grids; there are 0"),
    ("nanodet", [(1, 95, 3), (1, 95, 32)], {}, r"a grid has the proportions of the input of 64 by 96"),
    ("nanodet", [(1, 96, 3), (1, 96, 30)], {}, r"boxes are 30 values of a cell"),
    ("yolov3_raw", [(1, 8, 8, 12)], {"anchors": ((1.0, 2.0, 3.0, 4.0),)}, r"needs at least one class"),
]


@pytest.mark.parametrize(("form", "shapes", "more", "message"), REFUSED)
def test_grids_that_do_not_fit(form: str, shapes: list[tuple[int, ...]], more: dict[str, Any], message: str) -> None:
    with pytest.raises(TvmbuildError, match=message):
        compile_result(Boxes(form, **more), [(each, "float32") for each in shapes], PLACED)
