"""The comparison, in words, of the package's and the usual program's results for the same frame.

The ways differ in the rounding of bytes and in the network's sums, so a difference is not a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.benchmarking.frames.boxes import find_overlaps
from tvmbuild.devices.result_fields import unpack_pixels
from tvmbuild.preparing.compare import find_error

ALIKE = 0.5
"""The least part of their union that two boxes of one object share."""
SAME_PIXELS = 0.1
"""The distance of corners up to which two boxes are the same, even if a frame's edge leaves nothing of them."""
Found = Sequence[Mapping[str, Any]]


def describe_boxes(ours: Found, theirs: Found) -> str:
    """Return how many boxes both ways found, and how far these are apart, with their points and masks."""
    pairs = _pair_boxes(ours, theirs)
    told = _count(len(pairs), len(ours), len(theirs), "boxes")
    if not pairs:
        return told
    least = min(overlap for _, _, overlap in pairs)
    apart = max(abs(one["score"] - other["score"]) for one, other, _ in pairs)
    told = f"{told}, scores within {apart:.1e}, overlaps from {least:.3f}"
    points = [_find_distance(one["points"], other["points"]) for one, other, _ in pairs if one.get("points")]
    told += f", points within {max(points):.1e} pixels" if points else ""
    masks = [_overlap_masks(one["mask"], other["mask"]) for one, other, _ in pairs if one.get("mask")]
    return f"{told}, masks from {min(masks):.3f}" if masks else told


def _pair_boxes(ours: Found, theirs: Found) -> list[tuple[Mapping[str, Any], Mapping[str, Any], float]]:
    """Return pairs of boxes of one object, each with the part of their union that they share."""
    corners, others = _list_corners(ours), _list_corners(theirs)
    apart = np.abs(corners[:, None] - others[None, :]).max(axis=2, initial=0)
    overlaps = np.where(apart <= SAME_PIXELS, 1.0, find_overlaps(corners, others))
    classes = [np.array([int(each["index"]) for each in found]) for found in (ours, theirs)]
    overlaps = np.where(classes[0][:, None] == classes[1][None, :], overlaps, 0.0)
    pairs = []
    while overlaps.size and overlaps.max() >= ALIKE:
        one, other = map(int, np.unravel_index(int(overlaps.argmax()), overlaps.shape))
        pairs.append((ours[one], theirs[other], float(overlaps[one, other])))
        overlaps[one, :] = overlaps[:, other] = 0.0
    return pairs


def describe_classes(ours: Found, theirs: Found) -> str:
    """Return how many classes both ways found, and how far their scores are apart."""
    known = {int(each["index"]): float(each["score"]) for each in theirs}
    apart = [abs(float(each["score"]) - known[each["index"]]) for each in ours if each["index"] in known]
    told = _count(len(apart), len(ours), len(theirs), "classes")
    return f"{told}, scores within {max(apart):.1e}" if apart else told


def describe_map(ours: Found, theirs: Found) -> str:
    """Return the share of pixels with the same class."""
    one, other = (unpack_pixels(found[0]["pixels"]) for found in (ours, theirs))
    return f"{np.mean(one == other):.2%} of the pixels alike"


def describe_text(ours: Found, theirs: Found) -> str:
    """Return whether both ways read the same text, and how far the scores are apart."""
    one, other = (found[0] for found in (ours, theirs))
    if one["symbols"] != other["symbols"]:
        return f"different texts of {len(one['symbols'])} and {len(other['symbols'])} symbols"
    return f"the same {len(one['symbols'])} symbols, scores within {abs(one['score'] - other['score']):.1e}"


def describe_vector(ours: Found, theirs: Found) -> str:
    """Return how far the values of the vectors are apart."""
    one, other = (np.array(found[0]["values"]) for found in (ours, theirs))
    return f"{len(one)} values within {np.abs(one - other).max():.1e}"


def describe_points(ours: Found, theirs: Found) -> str:
    """Return how far the points of heatmaps are apart."""
    apart = max(abs(one["score"] - other["score"]) for one, other in zip(ours, theirs, strict=True))
    return f"{len(ours)} points within {_find_distance(ours, theirs):.1e} pixels, scores within {apart:.1e}"


def describe_raw(ours: Found, theirs: Found) -> str:
    """Return how far outputs are apart."""
    arrays = ({each["name"]: unpack_pixels(each["values"]) for each in found} for found in (ours, theirs))
    return describe_outputs(*arrays)


def describe_outputs(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> str:
    """Return how far the outputs of both ways are apart."""
    return f"outputs within {find_error(ours, theirs):.1e} of the largest"


DESCRIBERS: dict[str, Callable[[Found, Found], str]] = {
    "boxes": describe_boxes,
    "masks": describe_boxes,
    "keypoints": describe_boxes,
    "classes": describe_classes,
    "segmentation": describe_map,
    "text": describe_text,
    "vector": describe_vector,
    "heatmaps": describe_points,
    "raw": describe_raw,
}
"""Kind of result → the function that compares results of two ways."""


def describe_results(ours: Mapping[str, Found], theirs: Mapping[str, Found]) -> str:
    """Return how far the results of both ways are apart, one result after the other, by their names."""
    return "; ".join(DESCRIBERS[name.split()[0]](found, theirs[name]) for name, found in ours.items())


def _find_distance(points: Found, others: Found) -> float:
    """Return the largest difference of a coordinate of points, in pixels."""
    pairs = list(zip(points, others, strict=True))
    return max(abs(float(one[axis]) - float(other[axis])) for one, other in pairs for axis in ("x", "y"))


def _overlap_masks(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the part of their union that two masks share, 1 if both are empty."""
    some, others = unpack_pixels(one), unpack_pixels(other)
    union = int(np.count_nonzero(some | others))
    return np.count_nonzero(some & others) / union if union else 1.0


def _count(both: int, ours: int, theirs: int, noun: str) -> str:
    if both == ours == theirs:
        return f"the same {both} {noun}"
    return f"{both} {noun} in common, {ours} of ours, {theirs} of theirs"


def _list_corners(found: Found) -> np.ndarray:
    rows = [(each["x"], each["y"], each["x"] + each["width"], each["y"] + each["height"]) for each in found]
    return np.array(rows, float).reshape(-1, 4)
