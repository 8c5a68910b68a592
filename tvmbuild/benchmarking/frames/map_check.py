"""The check of a map of classes by plain NumPy: the number of pixels of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import Segmentation
from tvmbuild.benchmarking.frames.checks import ResultCheck, allow_score
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.package.result_arrays import OUTSIDE

Outputs = Mapping[str, np.ndarray]
_MAP_AXES = 4
_STRIPE = 64
"""The rows of a frame that are interpolated at once, because the scores of all its pixels would need gigabytes."""


def check_map(
    decoding: Decoding, outputs: Outputs, thresholds: Thresholds, found: Sequence[dict[str, Any]]
) -> ResultCheck:
    """Compare the number of pixels of each class with the output that a package made the map of.

    Pixels whose best scores are almost equal may have either class.
    """
    asked = decoding.asked
    if not isinstance(asked, Segmentation):
        raise TypeError(f"{asked} asks for no map")
    height, width = decoding.size
    if len(found) != 1 or (found[0]["height"], found[0]["width"]) != (height, width):
        return ResultCheck(len(found), 0.0, None, f"there is no map of {height} by {width} pixels")
    got = {int(each["index"]): int(each["pixels"]) for each in found[0]["classes"]}
    score = asked.score if thresholds.score is None else thresholds.score
    want, unsure = _count(decoding, asked, find_scores(decoding, outputs), score)
    for kind in sorted(got.keys() | want.keys()):
        apart = abs(got.get(kind, 0) - want.get(kind, 0))
        if apart > unsure:
            told = (
                f"class {kind} has {got.get(kind, 0)} pixels, where {want.get(kind, 0)} are right and {unsure} unsure"
            )
            return ResultCheck(1, 0.0, None, told)
    return ResultCheck(1, 0.0, None, None)


def find_scores(decoding: Decoding, outputs: Outputs) -> np.ndarray:
    """Return scores [classes, height, width], or classes [1, height, width] as whole numbers."""
    values = decoding.find_output(outputs)
    values = values[0] if values.ndim in (_MAP_AXES, _MAP_AXES - 1) else values
    if values.ndim == _MAP_AXES - 2:
        return values[None]
    return np.moveaxis(values, -1, 0) if decoding.channels_last else values


def _count(decoding: Decoding, asked: Segmentation, scores: np.ndarray, score: float) -> tuple[dict[int, int], int]:
    """Return class → number of pixels, and the number of pixels that rounding may give another class."""
    counts = np.zeros(256, np.int64)
    unsure = 0
    whole = (asked.outputs or decoding.outputs)[0] in decoding.whole
    nearest = whole or asked.interpolation == "nearest"
    rows = decoding.find_places(0)
    columns = _blend(scores, decoding.find_places(1), decoding.width, axis=2, nearest=nearest)
    for begin in range(0, len(rows), _STRIPE):
        part = rows[begin : begin + _STRIPE]
        values = _blend(columns, part, decoding.height, axis=1, nearest=nearest)
        seen = ~np.isnan(values[0])
        if whole:
            kinds = np.where(seen, values[0], OUTSIDE).astype(np.int64)
        elif len(values) == 1:
            found = 1 / (1 + np.exp(-values[0])) if asked.activation == "sigmoid" else values[0]
            kinds = np.where(seen, found > score, OUTSIDE).astype(np.int64)
            unsure += int(np.count_nonzero(np.abs(found - score) <= allow_score(score)))
        else:
            ordered = np.sort(values, axis=0)
            kinds = np.where(seen, np.nan_to_num(values).argmax(axis=0), OUTSIDE)
            unsure += int(np.count_nonzero(ordered[-1] - ordered[-2] <= allow_score(ordered[-1])))
        counts += np.bincount(kinds.ravel(), minlength=256)
    return {kind: int(number) for kind, number in enumerate(counts) if number}, unsure


def _blend(values: np.ndarray, places: np.ndarray, extent: int, *, axis: int, nearest: bool) -> np.ndarray:
    """Return values interpolated along an axis at places of the input, NaN where these are NaN."""
    size = values.shape[axis]
    at = np.nan_to_num(places) / extent * size
    shape = [-1 if each == axis else 1 for each in range(values.ndim)]
    if nearest:
        taken = np.take(values.astype(np.float64), np.clip(np.floor(at), 0, size - 1).astype(int), axis)
    else:
        at = np.clip(at - 0.5, 0, size - 1)
        first = np.floor(at).astype(int)
        weight = (at - first).reshape(shape)
        taken = np.take(values, first, axis) * (1 - weight)
        taken = taken + np.take(values, np.minimum(first + 1, size - 1), axis) * weight
    blended: np.ndarray = np.where(np.isnan(places).reshape(shape), np.nan, taken)
    return blended
