"""The check of masks by plain NumPy: after that of the boxes, the object of each pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.benchmarking.frames.box_check import match_boxes
from tvmbuild.benchmarking.frames.candidates import Candidates
from tvmbuild.benchmarking.frames.checks import PIXEL_ROOM, ResultCheck
from tvmbuild.benchmarking.frames.pixels import interpolate
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.devices.result_fields import unpack_pixels

Outputs = Mapping[str, np.ndarray]
_VALUE_SHARE = 1e-5
"""The difference of a mask's value that rounding can make, as a share of the largest sum of absolute products."""


def check_masks(
    decoding: Decoding, outputs: Outputs, thresholds: Thresholds, found: Sequence[dict[str, Any]]
) -> ResultCheck:
    """Compare the boxes and masks that a package found with the outputs that it made them of.

    A pixel belongs to the first object whose box contains its centre and whose mask is positive there. Pixels at the
    borders of boxes and masks may belong to either side.
    """
    check, chosen = match_boxes(decoding, outputs, thresholds, found)
    if check.problem is not None:
        return check
    masks = [unpack_pixels(each["mask"]) if each.get("mask") else None for each in found]
    for number, mask in enumerate(masks):
        if mask is None or mask.shape != decoding.size:
            height, width = decoding.size
            told = f"box {number} has no mask of {height} by {width} pixels"
            return ResultCheck(check.count, check.score_error, check.place_error, told)
    want, sure = draw_objects(decoding, decoding.find_output(outputs, 1)[0], chosen)
    problem = None
    for number, mask in enumerate(masks):
        right = want == number + 1
        wrong = int(np.count_nonzero(sure & (mask != right)))
        if wrong:
            union = int(np.count_nonzero(mask | right))
            overlap = np.count_nonzero(mask & right) / max(union, 1)
            problem = f"{wrong} pixels of the mask of box {number} are wrong, its overlap with the right one is "
            problem += f"{overlap:.4f}"
            break
    return ResultCheck(check.count, check.score_error, check.place_error, problem)


def draw_objects(decoding: Decoding, prototypes: np.ndarray, objects: Candidates) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the object at each pixel, from 1 on, 0 for none, and whether rounding cannot change it."""
    count, height, width = prototypes.shape
    flat = prototypes.reshape(count, -1)
    places = [decoding.find_places(axis) for axis in (0, 1)]
    numbers = np.zeros(decoding.size, int)
    sure = ~(decoding.find_ties(0)[:, None] | decoding.find_ties(1)[None, :])
    for number, (box, factors) in enumerate(zip(objects.boxes, objects.more, strict=True), 1):
        room = _VALUE_SHARE * (1 + float((np.abs(factors) @ np.abs(flat)).max()))
        near = [_find_near(places[axis], box[1 - axis], box[3 - axis]) for axis in (0, 1)]
        if not all(map(len, near)):
            continue
        rows, columns = (places[axis][near[axis]] for axis in (0, 1))
        values = interpolate((factors @ flat).reshape(1, height, width), rows, decoding.height, axis=1)
        values = interpolate(values, columns, decoding.width, axis=2)[0]
        inside = _count_inside(rows, box[1], box[3])[:, None] * _count_inside(columns, box[0], box[2])[None, :]
        drawn = np.where(values > room, 1.0, np.where(values < -room, 0.0, 0.5)) * inside
        at = np.ix_(*near)
        # Where a better object may be, a worse one is as unsure.
        free = (numbers[at] == 0) & sure[at]
        numbers[at] = np.where(free & (drawn == 1), number, numbers[at])
        sure[at] &= ~(free & (drawn > 0) & (drawn < 1))
    return numbers, sure


def _find_near(places: np.ndarray, begin: float, end: float) -> np.ndarray:
    """Return the numbers of the places that are inside of a box or at its border."""
    with np.errstate(invalid="ignore"):
        return np.flatnonzero((places >= begin - PIXEL_ROOM) & (places < end + PIXEL_ROOM))


def _count_inside(places: np.ndarray, begin: float, end: float) -> np.ndarray:
    """Return 1 for places inside of a box, and a half for those at its border."""
    at_border = np.minimum(np.abs(places - begin), np.abs(places - end)) < PIXEL_ROOM
    return np.where(at_border, 0.5, ((places >= begin) & (places < end)).astype(float))
