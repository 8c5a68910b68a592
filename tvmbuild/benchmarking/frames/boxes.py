"""The boxes in a detector's outputs by plain NumPy, as the networks' own repositories compute them.

It computes in the type of the arrays that it gets: the gate gives float64, the timed baseline float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, BoxForm, Keypoints, Masks
from tvmbuild.benchmarking.frames.candidates import Candidates, squash
from tvmbuild.benchmarking.frames.grids import decode_grids
from tvmbuild.benchmarking.frames.way import Decoding

Outputs = Mapping[str, np.ndarray]


def find_boxes(asked: Boxes, names: tuple[str, ...], outputs: Outputs) -> list[np.ndarray]:
    """Return the outputs that hold the boxes, without the batch: those that the model names, or the first ones."""
    form = BOX_FORMS[asked.form]
    count = 1 + form.split + form.apart + (form.priors != "none" and not asked.anchors)
    arrays = [outputs[name] for name in (asked.outputs or names)[:count]]
    if form.apart:
        return [each.reshape(-1, 4 if place == 1 else 1) for place, each in enumerate(arrays)]
    return [each.reshape(each.shape[-2:]) for each in arrays]


def decode_boxes(decoding: Decoding, outputs: Outputs, score: float) -> Candidates:
    """Return the candidates whose score exceeds ``score``, in the order of the outputs."""
    asked = decoding.asked
    if not isinstance(asked, Boxes):
        raise TypeError(f"{asked} asks for no boxes")
    if asked.form in GRID_FORMS:
        return decode_grids(decoding, outputs, score)
    form = BOX_FORMS[asked.form]
    arrays = find_boxes(asked, decoding.outputs, outputs)
    rows = arrays[0].T if form.layout == "columns" else arrays[0]
    own = rows.shape[1] - _count_more(decoding, outputs)
    rows, more = rows[:, :own], rows[:, own:]
    first, _, kind = form.places
    places = (arrays[1] if form.split else rows)[:, first : first + 4]
    if form.swapped:
        places = places[:, [1, 0, 3, 2]]
    if form.priors != "none":
        priors = arrays[2] if not asked.anchors else list_priors(asked, (decoding.height, decoding.width))
        places = move_priors(asked, priors.astype(places.dtype), places)
    # The repositories leave boxes of no object out first.
    chosen = np.flatnonzero(rows[:, 4] > score) if form.objectness else np.arange(len(rows))
    rows = rows[chosen] if form.objectness else rows
    scores = _find_scores(form, rows)
    likely = scores > score
    chosen, scores = chosen[likely], scores[likely]
    if form.ready:
        classes = (arrays[2] if form.apart else rows)[likely, kind].astype(int)
    else:
        classes = _list_classes(form, rows)[likely].argmax(axis=1)
    boxes = _find_places(form, places[chosen], chosen, (decoding.height, decoding.width))
    return Candidates(boxes, scores, classes, more[chosen])


def is_suppressed(asked: Boxes) -> bool:
    """Return whether overlapping boxes of the form are dropped."""
    form = BOX_FORMS.get(asked.form) or GRID_FORMS[asked.form]
    return form.suppress


def _count_more(decoding: Decoding, outputs: Outputs) -> int:
    """Return the number of values after a candidate's scores."""
    asked = decoding.asked
    if isinstance(asked, Keypoints):
        return asked.points * asked.values
    return decoding.find_output(outputs, 1).shape[1] if isinstance(asked, Masks) else 0


def _list_classes(form: BoxForm, rows: np.ndarray) -> np.ndarray:
    """Return the candidates' scores of all classes, [candidates, classes], before any sigmoid or softmax."""
    raw = _list_all_classes(form, rows)
    return {"none": raw, "first": raw[:, 1:], "last": raw[:, :-1]}[form.background]


def _list_all_classes(form: BoxForm, rows: np.ndarray) -> np.ndarray:
    """Return the candidates' scores of all classes, and of the background if the form has one."""
    return rows[:, form.begin - (form.background == "first") :]


def _find_scores(form: BoxForm, rows: np.ndarray) -> np.ndarray:
    """Return the probability of each candidate's likeliest class."""
    if form.ready:
        return rows[:, form.places[1]]
    best = _list_classes(form, rows).max(axis=1)
    if form.activation == "sigmoid":
        best = squash(best)
    elif form.activation == "softmax":
        raw = _list_all_classes(form, rows)
        highest = raw.max(axis=1)
        best = np.exp(best - highest) / np.exp(raw - highest[:, None]).sum(axis=1)
    scores: np.ndarray = best * rows[:, 4] if form.objectness else best
    return scores


def _find_places(form: BoxForm, places: np.ndarray, chosen: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return left, top, right and bottom of candidates in the input's pixels."""
    height, width = size
    if form.strides:
        cells = _list_cells(form.strides, size)[chosen].astype(places.dtype)
        centers = (places[:, :2] + cells[:, :2]) * cells[:, 2:]
        with np.errstate(over="ignore"):  # a drawn frame can make boxes without end
            places = np.concatenate([centers, np.exp(places[:, 2:]) * cells[:, 2:]], axis=1)
    if form.normalised:
        places = places * np.array([width, height, width, height], places.dtype)
    if form.corners:
        return places
    halves = places[:, 2:] / 2
    return np.concatenate([places[:, :2] - halves, places[:, :2] + halves], axis=1)


def move_priors(asked: Boxes, priors: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return centre, width and height of boxes that are relative to priors."""
    if BOX_FORMS[asked.form].priors == "offset":
        return np.concatenate([priors[:, :2] + places[:, :2], places[:, 2:]], axis=1)
    first, second = asked.variances
    centres = priors[:, :2] + places[:, :2] * first * priors[:, 2:]
    with np.errstate(over="ignore"):  # a drawn frame can make boxes without end
        return np.concatenate([centres, np.exp(places[:, 2:] * second) * priors[:, 2:]], axis=1)


@lru_cache(maxsize=8)
def list_priors(asked: Boxes, size: tuple[int, int]) -> np.ndarray:
    """Return centre, width and height of the priors that `anchors` and `strides` state."""
    height, width = size
    found = []
    for stride, numbers in zip(asked.strides, asked.anchors, strict=True):
        sides = list(zip(numbers[::2], numbers[1::2], strict=True))
        for row in range(math.ceil(height / stride - 1e-3)):
            for column in range(math.ceil(width / stride - 1e-3)):
                found += [((column + 0.5) * stride, (row + 0.5) * stride, *each) for each in sides]
    priors = np.array(found)
    return priors / (width, height, width, height) if BOX_FORMS[asked.form].normalised else priors


@lru_cache(maxsize=8)
def _list_cells(strides: tuple[int, ...], size: tuple[int, int]) -> np.ndarray:
    """Return column, row and stride of the cell of each candidate."""
    grids = []
    for stride in strides:
        rows, columns = np.mgrid[: size[0] // stride, : size[1] // stride]
        grids.append(np.stack([columns.ravel(), rows.ravel(), np.full(rows.size, stride)], axis=1))
    return np.concatenate(grids)


def map_to_frame(boxes: np.ndarray, geometry: np.ndarray) -> np.ndarray:
    """Return boxes in the frame's pixels, cut at its edges (`package.frames.find_geometry`)."""
    left, top, across, down, width, height = geometry.astype(boxes.dtype)
    moved = (boxes - np.array([left, top, left, top])) * np.array([across, down, across, down])
    cut: np.ndarray = np.clip(moved, 0, np.array([width, height, width, height]))
    return cut


def find_overlaps(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the parts of their unions that boxes share, [len(some), len(others)]."""
    one, other = some[:, None, :], others[None, :, :]
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    shared = np.prod(np.maximum(sides, 0), axis=-1)
    areas = np.prod(one[..., 2:] - one[..., :2], axis=-1) + np.prod(other[..., 2:] - other[..., :2], axis=-1)
    overlaps: np.ndarray = shared / np.maximum(areas - shared, 1e-9)
    return overlaps
