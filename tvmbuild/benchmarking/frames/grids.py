"""The boxes of cells of grids by plain NumPy, as the networks' own repositories compute them.

Cells with low scores are left out first. It computes in the type of the arrays, as `boxes` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tvmbuild.base.grid_forms import GRID_FORMS, GridForm, Part
from tvmbuild.base.postprocess_specs import Boxes
from tvmbuild.benchmarking.frames.candidates import Candidates, squash, unsquash
from tvmbuild.benchmarking.frames.way import Decoding

Values = Mapping[Part, np.ndarray]
_SIDES = 4
_BEFORE_CLASSES = 5
"""The values of a candidate before its classes, if one output has them all: a box and objectness."""
_LOGIT_ROOM = 1e-6
"""The tolerance of the threshold before the sigmoid. The score itself is compared afterwards."""
_ROWS_AXES, _MAP_AXES, _ANCHOR_AXES = 3, 4, 5
"""The numbers of axes of [1, cells, values], of maps, and of [1, anchors, rows, columns, values]."""


@dataclass(frozen=True)
class _Grid:
    """A grid of cells, and the outputs of all its candidates [anchors, cells, values]."""

    form: GridForm
    rows: int
    columns: int
    stride: float
    anchors: np.ndarray
    """Width and height of each anchor [anchors, 2] in pixels. A form without anchors has one, of zeros."""
    values: Values


@dataclass(frozen=True)
class _Likely:
    """The candidates of a grid that exceed the threshold, before their boxes are decoded."""

    grid: _Grid
    values: Values
    """The outputs of the candidates, [n, values]."""
    cells: np.ndarray
    """Columns and rows of the candidates' cells, [n, 2]."""
    anchors: np.ndarray
    """Width and height of the candidates' anchors in pixels, [n, 2]."""


def decode_grids(decoding: Decoding, outputs: Mapping[str, np.ndarray], score: float) -> Candidates:
    """Return the candidates whose score exceeds ``score``, grid by grid."""
    asked = decoding.asked
    if not isinstance(asked, Boxes):
        raise TypeError(f"{asked} asks for no boxes")
    form, names = GRID_FORMS[asked.form], asked.outputs or decoding.outputs
    levels = len(names) // len(form.parts)
    found = []
    for level in range(levels):
        arrays = [outputs[name] for name in names[level::levels]]
        anchors = np.reshape(asked.anchors[level] if form.with_anchors else (0, 0), (-1, 2))
        found.append(_decode_grid(_read_grid(form, arrays, anchors, (decoding.height, decoding.width)), score))
    return Candidates(
        np.concatenate([each.boxes for each in found]),
        np.concatenate([each.scores for each in found]),
        np.concatenate([each.classes for each in found]),
        np.concatenate([each.more for each in found]),
    )


def _read_grid(form: GridForm, arrays: Sequence[np.ndarray], anchors: np.ndarray, size: tuple[int, int]) -> _Grid:
    rows, columns = next(_list_cells(arrays[0].shape, len(anchors), size))
    values = [_split_cells(each, rows * columns, len(anchors)) for each in arrays]
    anchors = anchors.astype(arrays[0].dtype)
    return _Grid(form, rows, columns, size[0] / rows, anchors, dict(zip(form.parts, values, strict=True)))


def _list_cells(shape: tuple[int, ...], anchors: int, size: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the possible numbers of rows and columns of an output's grid, which has the proportions of the input."""
    sides = []
    if len(shape) == _MAP_AXES:
        sides = [shape[2:], shape[1:3]]
    elif len(shape) == _ANCHOR_AXES:
        sides = [shape[2:4]]
    elif len(shape) == _ROWS_AXES:
        for cells in (shape[1], shape[1] // anchors):
            rows = round(math.sqrt(cells * size[0] / size[1]))
            sides += [(rows, cells // rows)] if rows and cells % rows == 0 else []
    yield from ((rows, columns) for rows, columns in sides if rows * size[1] == columns * size[0])


def _split_cells(output: np.ndarray, cells: int, anchors: int) -> np.ndarray:
    """Return an output as [anchors, cells, values], without a copy."""
    shape = output.shape
    values = output.size // (cells * anchors)
    if len(shape) == _MAP_AXES and shape[1] == anchors * values and shape[2] * shape[3] == cells:
        split = np.transpose(output.reshape(anchors, values, cells), (0, 2, 1))
    elif math.prod(shape[1:-1]) == cells:
        split = np.transpose(output.reshape(cells, anchors, values), (1, 0, 2))
    else:
        split = output.reshape(anchors, cells, values)
    return split


def _decode_grid(grid: _Grid, score: float) -> Candidates:
    form, values = grid.form, grid.values
    with np.errstate(over="ignore", divide="ignore"):  # a drawn frame can make boxes without end
        if form.parts == ("all",):
            at = np.nonzero(values["all"][:, :, _SIDES] > unsquash(score) - _LOGIT_ROOM)
            rows = values["all"][at]
            raw, scores = rows[:, _BEFORE_CLASSES:], squash(rows[:, _SIDES])
            classes = raw.argmax(axis=1)
            scores = scores * squash(raw[np.arange(len(raw)), classes])
        else:
            at, scores = _find_likely(grid, score)
            classes = values["classes"][at].argmax(axis=1)
        kept = scores > score
        if form.boxes == "map":
            kept &= _find_peaks(grid, at[1], classes)
        at = (at[0][kept], at[1][kept])
        own = values[form.parts[0]].dtype
        cells = _list_places(grid.rows, grid.columns)[at[1]].astype(own)
        chosen = _Likely(grid, {part: each[at] for part, each in values.items()}, cells, grid.anchors[at[0]])
        boxes = PLACES[form.boxes](chosen)
    more = np.zeros((len(boxes), 0), own)
    if form.points:
        points = chosen.values["points"].reshape(-1, form.points, 2)
        more = ((points + cells[:, None]) * grid.stride).reshape(len(boxes), 2 * form.points)
    return Candidates(boxes, scores[kept], classes[kept], more)


def _find_likely(grid: _Grid, score: float) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return anchors and cells of the candidates whose likeliest class exceeds ``score``, and their scores."""
    form, best = grid.form, grid.values["classes"].max(axis=2)
    if form.sigmoid:
        at = np.nonzero(best > unsquash(score) - _LOGIT_ROOM)
        return at, squash(best[at])
    if "objectness" in grid.values:
        best = best * grid.values["objectness"][:, :, 0]
        best = np.sqrt(np.maximum(best, 0)) if form.root else best
    at = np.nonzero(best > score)
    return at, best[at]


def _find_peaks(grid: _Grid, cells: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return whether none of the eight neighbours of each cell has a higher score of its class."""
    maps = grid.values["classes"][0]
    rows, columns = np.divmod(cells, grid.columns)
    own, found = maps[cells, classes], np.ones(len(cells), bool)
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            near = np.clip(rows + down, 0, grid.rows - 1) * grid.columns
            found &= maps[near + np.clip(columns + across, 0, grid.columns - 1), classes] <= own
    return found


@lru_cache(maxsize=8)
def _list_places(rows: int, columns: int) -> np.ndarray:
    """Return column and row of each cell [cells, 2]."""
    y, x = np.mgrid[:rows, :columns]
    return np.stack([x.ravel(), y.ravel()], axis=1)


def _place_centres(likely: _Likely) -> np.ndarray:
    values, stride = likely.values["boxes"], likely.grid.stride
    return _join((values[:, :2] + likely.cells) * stride, np.exp(values[:, 2:]) * stride)


def _place_distances(likely: _Likely) -> np.ndarray:
    values = likely.values["boxes"]
    bins = values.shape[1] // _SIDES
    far = values.reshape(-1, _SIDES, bins)
    if bins > 1:
        weights = np.exp(far - far.max(axis=2, keepdims=True))
        far = (weights @ np.arange(bins, dtype=values.dtype) / weights.sum(axis=2))[:, :, None]
    far, centres = far[:, :, 0] * likely.grid.stride, (likely.cells + 0.5) * likely.grid.stride
    return np.concatenate([centres - far[:, :2], centres + far[:, 2:]], axis=1)


def _place_yolov3(likely: _Likely) -> np.ndarray:
    values = likely.values["all"]
    return _join((squash(values[:, :2]) + likely.cells) * likely.grid.stride, np.exp(values[:, 2:4]) * likely.anchors)


def _place_yolov5(likely: _Likely) -> np.ndarray:
    values = squash(likely.values["all"][:, :_SIDES])
    centres = (values[:, :2] * 2 - 0.5 + likely.cells) * likely.grid.stride
    return _join(centres, (values[:, 2:] * 2) ** 2 * likely.anchors)


def _place_maps(likely: _Likely) -> np.ndarray:
    stride = likely.grid.stride
    return _join((likely.values["offsets"] + likely.cells) * stride, likely.values["sizes"] * stride)


def _join(centres: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """Return left, top, right and bottom of boxes."""
    return np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)


PLACES: dict[str, Callable[[_Likely], np.ndarray]] = {
    "centre": _place_centres,
    "distances": _place_distances,
    "yolov3": _place_yolov3,
    "yolov5": _place_yolov5,
    "map": _place_maps,
}
"""Value of `GridForm.boxes` → the function that returns left, top, right and bottom in the input's pixels [n, 4]."""
