"""The classes in a classifier's output by plain NumPy, and the check of those that a package found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import Classes
from tvmbuild.benchmarking.frames.checks import ResultCheck, allow_score
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.package.results import Class

Outputs = Mapping[str, np.ndarray]


def find_probabilities(decoding: Decoding, outputs: Outputs) -> np.ndarray:
    """Return the probability of each class."""
    asked = decoding.asked
    if not isinstance(asked, Classes):
        raise TypeError(f"{asked} asks for no classes")
    scores = decoding.find_output(outputs).reshape(-1)
    if asked.activation == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-scores)))
    if asked.activation == "softmax":
        exponentials = np.exp(scores - scores.max())
        return np.asarray(exponentials / exponentials.sum())
    return scores


def check_classes(
    decoding: Decoding, outputs: Outputs, thresholds: Thresholds, found: Sequence[dict[str, Any]]
) -> ResultCheck:
    """Compare the classes that a package found with the output that it made them of.

    Classes with almost equal scores may come in either order, and either may be left out at the end.
    """
    asked, scores = decoding.asked, find_probabilities(decoding, outputs)
    if not isinstance(asked, Classes):
        raise TypeError(f"{asked} asks for no classes")
    classes = [Class(**each) for each in found]
    least = asked.score if thresholds.score is None else thresholds.score
    places = [each.index for each in classes]
    error = max(
        (abs(each.score - float(scores[each.index])) for each in classes if 0 <= each.index < len(scores)), default=0.0
    )
    problem = _find_problem(decoding, classes, scores) or _find_missing(places, scores, least, asked.most)
    return ResultCheck(len(classes), error, None, problem)


def _find_problem(decoding: Decoding, classes: Sequence[Class], scores: np.ndarray) -> str | None:
    """Return the first fault of the classes that were found, or None."""
    labels, known = decoding.labels, set()
    for number, each in enumerate(classes):
        told = f"class {each.index} with the score {each.score:.7g}, result {number},"
        if not 0 <= each.index < len(scores):
            return f"{told} does not exist: there are {len(scores)}"
        if each.index in known:
            return f"{told} was found before"
        known.add(each.index)
        want = float(scores[each.index])
        if abs(each.score - want) > allow_score(want):
            return f"{told} must have the score {want:.7g}"
        if number and each.score - classes[number - 1].score > allow_score(each.score):
            return f"{told} comes after a lower score"
        if labels is not None and each.index < len(labels) and each.label != labels[each.index]:
            return f"{told} must have the label {labels[each.index]}, not {each.label}"
    return None


def _find_missing(places: Sequence[int], scores: np.ndarray, least: float, most: int) -> str | None:
    """Return the first class that is missing or too much, or None."""
    if len(places) > most:
        return f"there are {len(places)} classes, at most {most} are asked for"
    for place in places:
        if least - scores[place] > allow_score(least):
            return f"class {place} has the score {scores[place]:.7g}, which does not exceed {least:g}"
    floor = float(min(scores[place] for place in places)) if len(places) == most else least
    likely = np.flatnonzero(scores > floor + allow_score(floor))
    missing = [place for place in likely if place not in places]
    if missing:
        return f"class {missing[0]} with the score {scores[missing[0]]:.7g} is missing"
    return None
