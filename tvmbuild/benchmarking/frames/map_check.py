"""The check of a map of classes by plain NumPy, pixel by pixel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import Segmentation
from tvmbuild.benchmarking.frames.checks import ResultCheck, allow_score
from tvmbuild.benchmarking.frames.pixels import interpolate
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.devices.result_fields import unpack_pixels
from tvmbuild.package.result_arrays import OUTSIDE

Outputs = Mapping[str, np.ndarray]
_MAP_AXES = 4
_STRIPE = 64
"""The rows of a frame that are interpolated at once, because the scores of all its pixels would need gigabytes."""


def check_map(
    decoding: Decoding, outputs: Outputs, thresholds: Thresholds, found: Sequence[dict[str, Any]]
) -> ResultCheck:
    """Compare the class of each pixel with the output that a package made the map of.

    Pixels whose best scores are almost equal may have either class.
    """
    asked = decoding.asked
    if not isinstance(asked, Segmentation):
        raise TypeError(f"{asked} asks for no map")
    height, width = decoding.size
    if len(found) != 1 or (found[0]["height"], found[0]["width"]) != (height, width):
        return ResultCheck(len(found), 0.0, None, f"there is no map of {height} by {width} pixels")
    got = unpack_pixels(found[0]["pixels"])
    score = asked.score if thresholds.score is None else thresholds.score
    wrong, first = 0, ""
    for begin, want, sure in _classify(decoding, asked, find_pixel_scores(decoding, outputs), score):
        have = got[begin : begin + len(want)]
        places = np.argwhere(sure & (have != want))
        if len(places) and not wrong:
            row, column = places[0]
            first = f"row {begin + row}, column {column}: got class {have[row, column]}, want {want[row, column]}"
        wrong += len(places)
    problem = f"{wrong} of {height * width} pixels have a wrong class, the first at {first}" if wrong else None
    return ResultCheck(1, 0.0, None, problem)


def find_pixel_scores(decoding: Decoding, outputs: Outputs) -> np.ndarray:
    """Return scores [classes, height, width], or classes [1, height, width] as whole numbers."""
    values = decoding.find_output(outputs)
    values = values[0] if values.ndim in (_MAP_AXES, _MAP_AXES - 1) else values
    if values.ndim == _MAP_AXES - 2:
        return values[None]
    return np.moveaxis(values, -1, 0) if decoding.channels_last else values


def _classify(
    decoding: Decoding, asked: Segmentation, scores: np.ndarray, score: float
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield stripes: the first row, the classes, and whether rounding cannot give a pixel another class."""
    whole = decoding.has_classes
    nearest = whole or asked.interpolation == "nearest"
    rows = decoding.find_places(0)
    columns = interpolate(scores, decoding.find_places(1), decoding.width, axis=2, nearest=nearest)
    # Of two pixels of an output either is nearest, and the frame may end where the input does.
    row_ties, column_ties = (decoding.find_ties(axis, scores.shape[1 + axis] if nearest else 1) for axis in (0, 1))
    for begin in range(0, len(rows), _STRIPE):
        part = rows[begin : begin + _STRIPE]
        values = interpolate(columns, part, decoding.height, axis=1, nearest=nearest)
        seen = ~np.isnan(values[0])
        tie = row_ties[begin : begin + _STRIPE, None] | column_ties[None, :]
        unsure = np.zeros(seen.shape, bool)
        if whole:
            kinds = np.nan_to_num(values[0])
        elif len(values) == 1:
            likely = 1 / (1 + np.exp(-values[0])) if asked.activation == "sigmoid" else values[0]
            kinds, unsure = likely > score, np.abs(likely - score) <= allow_score(score)
        else:
            ordered = np.sort(values, axis=0)
            kinds = np.nan_to_num(values).argmax(axis=0)
            unsure = ordered[-1] - ordered[-2] <= allow_score(ordered[-1])
        yield begin, np.where(seen, kinds, OUTSIDE).astype(np.int64), ~(tie | (seen & unsure))
