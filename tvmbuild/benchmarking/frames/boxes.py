"""The boxes in a detector's outputs by plain NumPy, as the networks' own repositories compute them.

It computes in the type of the arrays that it gets: the gate gives float64, the timed baseline float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tvmbuild.base.postprocess_specs import BOX_FORMS, Boxes, BoxForm, Keypoints
from tvmbuild.benchmarking.frames.way import Decoding

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Candidates:
    """The boxes that a network found, before overlapping ones are dropped."""

    boxes: np.ndarray
    """Left, top, right and bottom in the input's pixels [n, 4]."""
    scores: np.ndarray
    """[n]"""
    classes: np.ndarray
    """[n], whole numbers."""
    more: np.ndarray
    """The values behind the scores [n, values]: the keypoints of a result `keypoints`."""

    def keep(self, chosen: np.ndarray) -> Candidates:
        """Return the candidates at these places."""
        return Candidates(self.boxes[chosen], self.scores[chosen], self.classes[chosen], self.more[chosen])


def find_boxes(asked: Boxes, names: tuple[str, ...], outputs: Outputs) -> list[np.ndarray]:
    """Return the outputs that hold the boxes, without the batch: those that the model names, or the first ones."""
    form = BOX_FORMS[asked.form]
    count = 1 + form.split + (form.priors != "none" and not asked.anchors)
    arrays = [outputs[name] for name in (asked.outputs or names)[:count]]
    return [each.reshape(each.shape[-2:]) for each in arrays]


def decode_boxes(decoding: Decoding, outputs: Outputs, score: float) -> Candidates:
    """Return the candidates whose score exceeds ``score``, in the order of the outputs."""
    asked = decoding.asked
    if not isinstance(asked, Boxes):
        raise TypeError(f"{asked} asks for no boxes")
    form = BOX_FORMS[asked.form]
    arrays = find_boxes(asked, decoding.outputs, outputs)
    rows = arrays[0].T if form.layout == "columns" else arrays[0]
    own = rows.shape[1] - (asked.points * asked.values if isinstance(asked, Keypoints) else 0)
    rows, more = rows[:, :own], rows[:, own:]
    places = arrays[1][:, :4] if form.split else rows[:, :4]
    if form.swapped:
        places = places[:, [1, 0, 3, 2]]
    if form.priors != "none":
        priors = arrays[2] if not asked.anchors else list_priors(asked, (decoding.height, decoding.width))
        places = move_priors(asked, priors.astype(places.dtype), places)
    # The repositories leave boxes of no object out first.
    chosen = np.flatnonzero(rows[:, 4] > score) if form.objectness else np.arange(len(rows))
    scores, classes = _find_scores(form, rows[chosen] if form.objectness else rows)
    likely = scores > score
    chosen = chosen[likely]
    boxes = _find_places(form, places[chosen], chosen, (decoding.height, decoding.width))
    return Candidates(boxes, scores[likely], classes[likely], more[chosen])


def _find_scores(form: BoxForm, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of each candidate's likeliest class, and this class."""
    if form.ready:
        return rows[:, 4], rows[:, 5].astype(int)
    raw = rows[:, form.begin - (form.background == "first") :]
    known = {"none": raw, "first": raw[:, 1:], "last": raw[:, :-1]}[form.background]
    classes = known.argmax(axis=1)
    best = known[np.arange(len(known)), classes]
    if form.activation == "sigmoid":
        best = 1 / (1 + np.exp(-best))
    elif form.activation == "softmax":
        highest = raw.max(axis=1)
        best = np.exp(best - highest) / np.exp(raw - highest[:, None]).sum(axis=1)
    return (best * rows[:, 4] if form.objectness else best), classes


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
