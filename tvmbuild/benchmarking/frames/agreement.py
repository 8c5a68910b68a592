"""The comparison, in words, of the results of two ways from the same frame.

The ways differ in the rounding of bytes and in the network's sums, so a difference is no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.benchmarking.frames.boxes import find_overlaps
from tvmbuild.preparing.compare import find_error

ALIKE = 0.5
"""The least part of their union that two boxes of one object share."""
SAME_PIXELS = 0.1
"""The distance of corners up to which two boxes are the same, even if a frame's edge leaves nothing of them."""
Found = Sequence[Mapping[str, Any]]


def describe_boxes(ours: Found, theirs: Found) -> str:
    """Return how many boxes both ways found, and how far these are apart."""
    corners, others = _list_corners(ours), _list_corners(theirs)
    apart = np.abs(corners[:, None] - others[None, :]).max(axis=2, initial=0)
    overlaps = np.where(apart <= SAME_PIXELS, 1.0, find_overlaps(corners, others))
    classes = [np.array([int(each["index"]) for each in found]) for found in (ours, theirs)]
    overlaps = np.where(classes[0][:, None] == classes[1][None, :], overlaps, 0.0)
    pairs = []
    while overlaps.size and overlaps.max() >= ALIKE:
        one, other = map(int, np.unravel_index(int(overlaps.argmax()), overlaps.shape))
        pairs.append((float(overlaps[one, other]), abs(ours[one]["score"] - theirs[other]["score"])))
        overlaps[one, :] = overlaps[:, other] = 0.0
    told = _count(len(pairs), len(ours), len(theirs), "boxes")
    if not pairs:
        return told
    least, apart = min(overlap for overlap, _ in pairs), max(score for _, score in pairs)
    return f"{told}, scores within {apart:.1e}, overlaps from {least:.3f}"


def describe_classes(ours: Found, theirs: Found) -> str:
    """Return how many classes both ways found, and how far their scores are apart."""
    known = {int(each["index"]): float(each["score"]) for each in theirs}
    apart = [abs(float(each["score"]) - known[each["index"]]) for each in ours if each["index"] in known]
    told = _count(len(apart), len(ours), len(theirs), "classes")
    return f"{told}, scores within {max(apart):.1e}" if apart else told


def describe_maps(ours: Found, theirs: Found) -> str:
    """Return how far the shares of the classes are apart."""
    apart = 0.0
    for one, other in zip(ours, theirs, strict=True):
        counts = [{each["index"]: each["pixels"] for each in found["classes"]} for found in (one, other)]
        kinds, pixels = counts[0].keys() | counts[1].keys(), one["height"] * one["width"]
        apart = max(apart, *(abs(counts[0].get(kind, 0) - counts[1].get(kind, 0)) / pixels for kind in kinds))
    return f"shares of the classes within {apart:.1e}"


def describe_outputs(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> str:
    """Return how far the outputs of both ways are apart."""
    return f"outputs within {find_error(ours, theirs):.1e} of the largest"


DESCRIBERS: dict[str, Callable[[Found, Found], str]] = {
    "boxes": describe_boxes,
    "classes": describe_classes,
    "segmentation": describe_maps,
}
"""Kind of result → the function that compares results of two ways."""


def describe_results(ours: Mapping[str, Found], theirs: Mapping[str, Found]) -> str:
    """Return how far the results of both ways are apart, kind by kind."""
    told = [
        DESCRIBERS[kind](found, theirs[kind]) if kind in DESCRIBERS else "not compared" for kind, found in ours.items()
    ]
    return "; ".join(told)


def _count(both: int, ours: int, theirs: int, noun: str) -> str:
    if both == ours == theirs:
        return f"the same {both} {noun}"
    return f"{both} {noun} in common, {ours} of ours, {theirs} of theirs"


def _list_corners(found: Found) -> np.ndarray:
    rows = [(each["x"], each["y"], each["x"] + each["width"], each["y"] + each["height"]) for each in found]
    return np.array(rows, float).reshape(-1, 4)
