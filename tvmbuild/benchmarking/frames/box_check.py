"""The check of a package's boxes: whether they are those that non-maximum suppression leaves of the candidates.

The check does not repeat the suppression. It tests what makes its result the only right one, each time with the room
that rounding needs: so candidates with almost equal scores may come in either order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import Boxes, Keypoints
from tvmbuild.benchmarking.frames.boxes import Outputs, decode_boxes, find_overlaps, is_suppressed, map_to_frame
from tvmbuild.benchmarking.frames.candidates import Candidates
from tvmbuild.benchmarking.frames.checks import PIXEL_ROOM, ResultCheck, allow_score
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.package.results import Box

OVERLAP_ROOM = 1e-4
"""The difference of an overlap from its threshold that rounding can make."""
HUGE = 1e18
"""The largest coordinate of a comparable box; larger boxes have areas beyond float32."""
_PLACE = 2
"""The number of values of a place."""
SIDE_ROOM = 1e-5
"""The difference of a coordinate that rounding can make as a share of it, beside that in pixels."""


def list_box_scores(decoding: Decoding, outputs: Outputs) -> np.ndarray:
    """Return the scores of all candidates."""
    return decode_boxes(decoding, outputs, -np.inf).scores


def check_boxes(
    decoding: Decoding, outputs: Outputs, thresholds: Thresholds, found: Sequence[dict[str, Any]]
) -> ResultCheck:
    """Compare the boxes that a package found with the outputs that it made them of."""
    return match_boxes(decoding, outputs, thresholds, found)[0]


def match_boxes(
    decoding: Decoding, outputs: Outputs, thresholds: Thresholds, found: Sequence[dict[str, Any]]
) -> tuple[ResultCheck, Candidates]:
    """Compare boxes as `check_boxes` does, and return the candidate of each one, too."""
    asked = decoding.asked
    if not isinstance(asked, Boxes):
        raise TypeError(f"{asked} asks for no boxes")
    boxes = [Box(**each) for each in found]
    score = asked.score if thresholds.score is None else thresholds.score
    overlap = asked.overlap if thresholds.overlap is None else thresholds.overlap
    # Candidates just below the threshold may have been found.
    candidates = decode_boxes(decoding, outputs, score - 2 * allow_score(score))
    suppression = _Suppression(asked, score, overlap, candidates)
    mapped = map_to_frame(candidates.boxes, decoding.geometry)
    for number, box in enumerate(boxes):
        if score - box.score > allow_score(score):
            told = f"box {number}, {_describe(box)}, has a score that does not exceed {score:g}"
            return ResultCheck(len(boxes), 0.0, 0.0, told), candidates
    matches, check = _match(boxes, candidates, mapped, decoding.labels)
    chosen = candidates.keep(np.array(matches, int))
    if check.problem is not None:
        return check, chosen
    problem = next(suppression.list_problems(matches), None)
    if problem is None and isinstance(asked, Keypoints):
        problem = _find_wrong_point(boxes, chosen.more, decoding, asked)
    return replace(check, problem=problem), chosen


def _find_wrong_point(boxes: Sequence[Box], more: np.ndarray, decoding: Decoding, asked: Keypoints) -> str | None:
    """Return the first keypoint that is not the network's, or None."""
    left, top, across, down, width, height = decoding.geometry
    for number, (box, values) in enumerate(
        zip(boxes, more.reshape(len(boxes), asked.points, asked.values), strict=True)
    ):
        points: Sequence[Any] = box.points
        for place, (point, want) in enumerate(zip(points, values, strict=True)):
            x, y = np.clip((want[0] - left) * across, 0, width), np.clip((want[1] - top) * down, 0, height)
            apart = max(abs(point["x"] - x), abs(point["y"] - y))
            if apart > PIXEL_ROOM + SIDE_ROOM * max(abs(x), abs(y)):
                return f"point {place} of box {number} is off by {apart:.3g} pixels: want x {x:.7g}, y {y:.7g}"
            if asked.values > _PLACE and abs(point["score"] - want[2]) > allow_score(want[2]):
                return f"point {place} of box {number} must have the score {want[2]:.7g}, not {point['score']:.7g}"
    return None


def _match(
    boxes: Sequence[Box], candidates: Candidates, mapped: np.ndarray, labels: tuple[str, ...] | None
) -> tuple[list[int], ResultCheck]:
    """Return the candidate of each box, and the largest errors or the first box that is none."""
    matches: list[int] = []
    score_error = place_error = 0.0
    free = np.ones(len(mapped), bool)
    for number, box in enumerate(boxes):
        corners = np.array([box.x, box.y, box.x + box.width, box.y + box.height])
        same = np.flatnonzero(free & (candidates.classes == box.index))
        if not len(same):
            told = f"box {number}, {_describe(box)}, is of no candidate: the outputs have no other one of its class"
            return matches, ResultCheck(len(boxes), score_error, place_error, told)
        apart = np.abs(mapped[same] - corners).max(axis=1)
        scores = np.abs(candidates.scores[same] - box.score)
        # A box that is cut at the frame's edge may have the place of another one, with another score.
        room = PIXEL_ROOM + SIDE_ROOM * np.abs(corners).max()
        best = int(np.argmin(apart / room + scores / allow_score(box.score)))
        told = ""
        if apart[best] > room:
            x, y, right, bottom = mapped[same[best]]
            told = (
                f"box {number}, {_describe(box)}, is off by {apart[best]:.3g} pixels, where {room:.2g} is allowed: "
                f"want x {x:.7g}, y {y:.7g}, width {right - x:.7g}, height {bottom - y:.7g}"
            )
        elif scores[best] > allow_score(box.score):
            told = f"box {number}, {_describe(box)}, must have the score {candidates.scores[same[best]]:.7g}"
        elif labels is not None and 0 <= box.index < len(labels) and box.label != labels[box.index]:
            told = f"box {number}, {_describe(box)}, must have the label {labels[box.index]}"
        score_error, place_error = max(score_error, float(scores[best])), max(place_error, float(apart[best]))
        if told:
            return matches, ResultCheck(len(boxes), score_error, place_error, told)
        free[same[best]] = False
        matches.append(int(same[best]))
    return matches, ResultCheck(len(boxes), score_error, place_error, None)


def _describe(box: Box) -> str:
    return (
        f"class {box.index}, score {box.score:.7g}, x {box.x:.7g}, y {box.y:.7g}, "
        f"width {box.width:.7g}, height {box.height:.7g}"
    )


@dataclass(frozen=True)
class _Suppression:
    """The thresholds and limits of non-maximum suppression, and the candidates to suppress."""

    asked: Boxes
    score: float
    overlap: float
    candidates: Candidates

    def list_problems(self, matches: Sequence[int]) -> Iterator[str]:
        """Yield the faults of a choice of candidates, ``matches``, in their order."""
        chosen, scores = np.array(matches, int), self.candidates.scores
        if len(chosen) > self.asked.most:
            yield f"there are {len(chosen)} boxes, at most {self.asked.most} are asked for"
        for number, (one, other) in enumerate(pairwise(chosen)):
            if scores[other] - scores[one] > allow_score(scores[one]):
                yield f"box {number + 1} has a higher score than box {number}: {scores[other]:.7g}, {scores[one]:.7g}"
        yield from self._list_overlaps(chosen)
        yield from self._list_missing(chosen)

    def _list_overlaps(self, chosen: np.ndarray) -> Iterator[str]:
        rivals = self._find_rivals(chosen, chosen)
        for one, other in zip(*np.nonzero(rivals > self.overlap + OVERLAP_ROOM), strict=True):
            if one < other:
                yield f"boxes {one} and {other} share {rivals[one, other]:.4f} of their union, over {self.overlap:g}"

    def _list_missing(self, chosen: np.ndarray) -> Iterator[str]:
        """Yield the likely candidates that are neither chosen nor overlap a better one that is."""
        scores = self.candidates.scores
        room = allow_score(self.score)
        likely = (scores > self.score + room) & (np.abs(self.candidates.boxes) < HUGE).all(axis=1)
        likely[chosen] = False
        if len(chosen) == self.asked.most:
            last = scores[chosen].min()
            likely &= scores > last + allow_score(last)
        left = np.flatnonzero(likely)
        if not len(left):
            return
        rivals = self._find_rivals(left, chosen)
        better = scores[chosen][None, :] >= scores[left][:, None] - allow_score(scores[left])[:, None]
        covered = ((rivals > self.overlap - OVERLAP_ROOM) & better).any(axis=1)
        missing = left[~covered]
        if len(missing):
            place = missing[np.argmax(scores[missing])]
            x, y, right, bottom = self.candidates.boxes[place]
            yield (
                f"a box is missing, class {self.candidates.classes[place]}, score {scores[place]:.7g}, in the input's "
                f"pixels x {x:.7g}, y {y:.7g}, width {right - x:.7g}, height {bottom - y:.7g}; "
                f"there are {len(chosen)} boxes"
            )

    def _find_rivals(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the overlaps of candidates that exclude each other as results, else -1."""
        boxes, classes = self.candidates.boxes, self.candidates.classes
        overlaps = find_overlaps(boxes[some], boxes[others])
        endless = (np.abs(boxes) >= HUGE).any(axis=1)
        overlaps[endless[some][:, None] | endless[others][None, :]] = -1.0
        if not is_suppressed(self.asked):
            return np.full_like(overlaps, -1.0)
        if self.asked.agnostic:
            return overlaps
        return np.where(classes[some][:, None] == classes[others][None, :], overlaps, -1.0)
