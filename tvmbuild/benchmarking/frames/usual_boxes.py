"""The usual code that makes boxes, keypoints and masks of a network's outputs: NumPy and OpenCV.

It does what the networks' own repositories do, and decodes only candidates above the threshold of scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import cv2
import numpy as np

from tvmbuild.base.postprocess_specs import Boxes, Keypoints
from tvmbuild.benchmarking.frames.boxes import decode_boxes, is_suppressed, map_to_frame
from tvmbuild.benchmarking.frames.candidates import Candidates
from tvmbuild.benchmarking.frames.usual_pixels import draw_part
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.package.results import Box, Point, name_class

Outputs = Mapping[str, np.ndarray]
_PLACE = 2
"""The number of values of a place."""


def find_boxes(decoding: Decoding, outputs: Outputs, score: float, overlap: float) -> tuple[Box, ...]:
    """Return the boxes in a detector's outputs, the best first. OpenCV suppresses overlapping ones."""
    return _list_boxes(decoding, _choose(decoding, outputs, score, overlap))


def find_keypoints(decoding: Decoding, outputs: Outputs, score: float, overlap: float) -> tuple[Box, ...]:
    """Return boxes with the keypoints after their scores."""
    asked, found = decoding.asked, _choose(decoding, outputs, score, overlap)
    if not isinstance(asked, Keypoints):
        raise TypeError(f"{asked} asks for no keypoints")
    values = found.more.reshape(len(found.scores), asked.points, asked.values)
    left, top, across, down, width, height = decoding.geometry.astype(values.dtype)
    moved = (values[:, :, :_PLACE] - np.array([left, top])) * np.array([across, down])
    places = np.clip(moved, 0, np.array([width, height])).tolist()
    scores = (values[:, :, _PLACE] if asked.values > _PLACE else np.ones(values.shape[:2])).tolist()
    return tuple(
        replace(box, points=tuple(Point(x, y, value, at) for at, ((x, y), value) in enumerate(zip(*each, strict=True))))
        for box, *each in zip(_list_boxes(decoding, found), places, scores, strict=True)
    )


def find_masks(decoding: Decoding, outputs: Outputs, score: float, overlap: float) -> tuple[Box, ...]:
    """Return boxes with masks. Each mask is drawn inside of its box only, where no better object is."""
    found = _choose(decoding, outputs, score, overlap)
    prototypes = decoding.find_output(outputs, 1)[0]
    planes = (found.more @ prototypes.reshape(len(prototypes), -1)).reshape(-1, *prototypes.shape[1:])
    corners = np.ceil(map_to_frame(found.boxes, decoding.map_geometry) - 0.5).astype(int).tolist()
    free, boxes = np.ones(decoding.size, bool), []
    rows, columns = decoding.seen
    for box, plane, (left, top, right, bottom) in zip(_list_boxes(decoding, found), planes, corners, strict=True):
        mask = np.zeros(decoding.size, bool)
        near = (
            slice(max(top, rows.start), max(top, rows.start, min(bottom, rows.stop))),
            slice(max(left, columns.start), max(left, columns.start, min(right, columns.stop))),
        )
        if mask[near].size:
            own = draw_part(decoding, plane, near) > 0
            own &= free[near]
            mask[near] = own
            free[near] &= ~own
        boxes.append(replace(box, mask=mask))
    return tuple(boxes)


def _choose(decoding: Decoding, outputs: Outputs, score: float, overlap: float) -> Candidates:
    """Return the candidates that are results, the best first."""
    asked = decoding.asked
    if not isinstance(asked, Boxes):
        raise TypeError(f"{asked} asks for no boxes")
    found = decode_boxes(decoding, outputs, score)
    if is_suppressed(asked) and len(found.scores):
        found = found.keep(_suppress(found, score, overlap, agnostic=asked.agnostic))
    return found.keep(np.argsort(-found.scores, kind="stable")[: asked.most])


def _suppress(found: Candidates, score: float, overlap: float, *, agnostic: bool) -> np.ndarray:
    sides = np.concatenate([found.boxes[:, :2], found.boxes[:, 2:] - found.boxes[:, :2]], axis=1)
    if agnostic:
        kept = cv2.dnn.NMSBoxes(sides.tolist(), found.scores.tolist(), score, overlap)
    else:
        classes = found.classes.tolist()
        kept = cv2.dnn.NMSBoxesBatched(sides.tolist(), found.scores.tolist(), classes, score, overlap)
    return np.asarray(kept, int).ravel()


def _list_boxes(decoding: Decoding, found: Candidates) -> tuple[Box, ...]:
    corners = map_to_frame(found.boxes, decoding.geometry)
    return tuple(
        Box(left, top, right - left, bottom - top, value, number, name_class(decoding.labels, number))
        for (left, top, right, bottom), value, number in zip(
            corners.tolist(), found.scores.tolist(), found.classes.tolist(), strict=True
        )
    )
