"""The checks of texts, vectors, points and outputs by plain NumPy. They have no candidates to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import Heatmaps, Raw, Text, Vector
from tvmbuild.benchmarking.frames.checks import PIXEL_ROOM, ResultCheck, allow_score, find_difference
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.devices.result_fields import unpack_pixels

Outputs = Mapping[str, np.ndarray]
Found = Sequence[dict[str, Any]]
_SHIFT = 0.25
"""The shift of a peak towards its higher neighbour, in pixels."""


def check_text(decoding: Decoding, outputs: Outputs, _: Thresholds, found: Found) -> ResultCheck:
    """Compare a text with the output that a package made it of.

    If two symbols of a step have almost equal scores, either may be the best, and the text is not judged.
    """
    asked = decoding.asked
    if not isinstance(asked, Text):
        raise TypeError(f"{asked} asks for no text")
    scores = decoding.find_output(outputs)
    scores = scores.reshape(-1, scores.shape[-1])
    ordered = np.sort(scores, axis=1)
    if len(found) != 1:
        return ResultCheck(len(found), 0.0, None, f"there are {len(found)} texts, where there is one")
    blank = 0 if asked.blank == "first" else scores.shape[1] - 1
    best = scores.argmax(axis=1)
    before = np.concatenate([[blank], best[:-1]])
    steps = np.flatnonzero((best != blank) & (best != before))
    symbols, got = best[steps].tolist(), list(found[0]["symbols"])
    if symbols != got:
        unsure = np.any(ordered[:, -1] - ordered[:, -2] <= allow_score(ordered[:, -1]))
        problem = None if unsure else f"the symbols are {got[:8]} …, where {symbols[:8]} … are right"
        return ResultCheck(1, 0.0, None, problem)
    values = scores.max(axis=1)
    if asked.activation == "softmax":
        values = 1 / np.exp(scores - values[:, None]).sum(axis=1)
    want = float(values[steps].mean()) if len(steps) else 0.0
    apart = abs(float(found[0]["score"]) - want)
    problem = f"the score is {found[0]['score']:.7g}, not {want:.7g}" if apart > allow_score(want) else None
    return ResultCheck(1, apart, None, problem)


def check_vector(decoding: Decoding, outputs: Outputs, _: Thresholds, found: Found) -> ResultCheck:
    """Compare a vector with the output that a package made it of."""
    asked = decoding.asked
    if not isinstance(asked, Vector):
        raise TypeError(f"{asked} asks for no vector")
    want = decoding.find_output(outputs).reshape(-1)
    if asked.normalise:
        want = want / max(float(np.linalg.norm(want)), 1e-12)
    got = np.asarray(found[0]["values"], np.float64) if len(found) == 1 else np.zeros(0)
    if got.shape != want.shape:
        return ResultCheck(len(found), 0.0, None, f"the vector has {got.size} values, not {want.size}")
    apart = np.abs(got - want)
    worst = int(np.argmax(apart - allow_score(want)))
    problem = None
    if not apart[worst] <= allow_score(want[worst]):
        problem = f"value {worst} of the vector is {got[worst]:.7g}, not {want[worst]:.7g}"
    return ResultCheck(1, float(apart.max()), None, problem)


def check_outputs(decoding: Decoding, outputs: Outputs, _: Thresholds, found: Found) -> ResultCheck:
    """Compare outputs with those of the network for the same frame."""
    if not isinstance(decoding.asked, Raw):
        raise TypeError(f"{decoding.asked} asks for no outputs")
    names = [each["name"] for each in found]
    if names != list(decoding.asked.outputs):
        return ResultCheck(len(found), 0.0, None, f"the outputs are {names}")
    for name, each in zip(names, found, strict=True):
        got, want = unpack_pixels(each["values"]), np.asarray(outputs[name])
        if got.shape != want.shape:
            return ResultCheck(len(found), 0.0, None, f"{name} has the shape {list(got.shape)}, not {list(want.shape)}")
        if (apart := find_difference(got, want)) is not None:
            return ResultCheck(len(found), 0.0, None, f"{name} is off by {apart:.3g}")
    return ResultCheck(len(found), 0.0, None, None)


def check_points(decoding: Decoding, outputs: Outputs, _: Thresholds, found: Found) -> ResultCheck:
    """Compare the peaks of heatmaps with the output that a package made them of."""
    if not isinstance(decoding.asked, Heatmaps):
        raise TypeError(f"{decoding.asked} asks for no heatmaps")
    maps = decoding.find_output(outputs)[0]
    maps = np.moveaxis(maps, -1, 0) if decoding.channels_last else maps
    if len(found) != len(maps):
        return ResultCheck(len(found), 0.0, 0.0, f"there are {len(found)} points, not {len(maps)}")
    score_error = place_error = 0.0
    for number, (values, point) in enumerate(zip(maps, found, strict=True)):
        score_error = max(score_error, abs(float(point["score"]) - float(values.max())))
        if score_error > allow_score(values.max()):
            told = f"point {number} has the score {point['score']:.7g}, not {values.max():.7g}"
            return ResultCheck(len(found), score_error, place_error, told)
        apart = _find_distance(decoding, values, point)
        place_error = max(place_error, apart)
        if apart > PIXEL_ROOM:
            told = f"point {number} at x {point['x']:.7g}, y {point['y']:.7g} is off by {apart:.3g} pixels"
            return ResultCheck(len(found), score_error, place_error, told)
    return ResultCheck(len(found), score_error, place_error, None)


def _find_distance(decoding: Decoding, values: np.ndarray, point: Mapping[str, Any]) -> float:
    """Return the distance of a point from the nearest peak; almost equal values are peaks, too."""
    highest = float(values.max())
    peaks = np.argwhere(values >= highest - allow_score(highest))
    left, top, across, down, width, height = decoding.geometry
    distances = []
    for row, column in peaks:
        shifts = [_list_shifts(values[:, column], row), _list_shifts(values[row], column)]
        for dy in shifts[0]:
            for dx in shifts[1]:
                x = (column + dx) * decoding.width / values.shape[1]
                y = (row + dy) * decoding.height / values.shape[0]
                place = (np.clip((x - left) * across, 0, width), np.clip((y - top) * down, 0, height))
                distances.append(max(abs(place[0] - float(point["x"])), abs(place[1] - float(point["y"]))))
    return float(min(distances))


def _list_shifts(line: np.ndarray, at: int) -> list[float]:
    """Return the possible shifts of a peak along a line: towards the higher neighbour."""
    if not 0 < at < len(line) - 1:
        return [0.0]
    lead = float(line[at + 1] - line[at - 1])
    if abs(lead) <= allow_score(line[at + 1]):
        return [-_SHIFT, 0.0, _SHIFT]
    return [_SHIFT if lead > 0 else -_SHIFT]
