"""The kinds of results that are compared, one row each: plain NumPy that tells right results from wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import Postprocess, kind_of
from tvmbuild.benchmarking.frames.box_check import check_boxes, list_box_scores
from tvmbuild.benchmarking.frames.checks import ResultCheck
from tvmbuild.benchmarking.frames.class_check import check_classes
from tvmbuild.benchmarking.frames.map_check import check_map
from tvmbuild.benchmarking.frames.mask_check import check_masks
from tvmbuild.benchmarking.frames.plain_checks import check_outputs, check_points, check_text, check_vector
from tvmbuild.benchmarking.frames.unknown import (
    list_unknown_boxes,
    list_unknown_classes,
    list_unknown_maps,
    list_unknown_outputs,
    list_unknown_points,
    list_unknown_texts,
    list_unknown_vectors,
)
from tvmbuild.benchmarking.frames.way import Decoding
from tvmbuild.devices.frame_worker import Thresholds
from tvmbuild.package.result_arrays import make_thresholds

Outputs = Mapping[str, np.ndarray]
FEWEST, MANY, CHOSEN = 20, 300, 50
"""A drawn frame has few objects or none. If fewer or more candidates than these exceed the package's threshold of
scores, another threshold is asked for, which so many exceed."""


@dataclass(frozen=True)
class ResultReference:
    """The plain NumPy of a kind of result."""

    check: Callable[[Decoding, Outputs, Thresholds, Sequence[dict[str, Any]]], ResultCheck]
    """Compares the results of a package, maps of their fields, with the outputs that it made them of."""
    list_unknown: Callable[[Any], list[str]]
    """The parts of an asked result that the reference does not know: if there are any, nothing is compared."""
    list_scores: Callable[[Decoding, Outputs], np.ndarray] | None = None
    """Returns the scores of all candidates in a network's outputs, if all of them above the threshold are results: then
    another threshold makes a better test."""


REFERENCES: dict[str, ResultReference] = {
    "boxes": ResultReference(check_boxes, list_unknown_boxes, list_box_scores),
    "masks": ResultReference(check_masks, list_unknown_boxes, list_box_scores),
    "keypoints": ResultReference(check_boxes, list_unknown_boxes, list_box_scores),
    "classes": ResultReference(check_classes, list_unknown_classes),
    "text": ResultReference(check_text, list_unknown_texts),
    "segmentation": ResultReference(check_map, list_unknown_maps),
    "vector": ResultReference(check_vector, list_unknown_vectors),
    "heatmaps": ResultReference(check_points, list_unknown_points),
    "raw": ResultReference(check_outputs, list_unknown_outputs),
}
"""Kind of result in models.yaml → its reference. Results of a kind that is not here are not compared."""


def find_reference(decoding: Decoding) -> ResultReference | None:
    """Return the reference of the kind of result, or None if there is none yet, or none for this form of it."""
    found = REFERENCES.get(kind_of(decoding.asked))
    return None if found is None or found.list_unknown(decoding.asked) else found


def explain_lack(decoding: Decoding) -> str:
    """Return the note that results of this kind are not compared."""
    kind = kind_of(decoding.asked)
    found = REFERENCES.get(kind)
    with_ = f" with {', '.join(found.list_unknown(decoding.asked))}" if found is not None else ""
    return f"results of the kind `{kind}`{with_} are not compared: they have no reference yet"


def choose_thresholds(decoding: Decoding, outputs: Outputs) -> Thresholds:
    """Return thresholds with which a drawn frame has results: the package's own ones if they do."""
    reference = find_reference(decoding)
    if reference is None or reference.list_scores is None:
        return Thresholds()
    scores = np.sort(reference.list_scores(decoding, outputs))[::-1]
    own = int(np.count_nonzero(scores > score_of(decoding.asked)))
    if FEWEST <= own <= MANY or len(scores) < 2:
        return Thresholds()
    at = min(CHOSEN, len(scores) - 1)
    return Thresholds(float(np.float32((scores[at - 1] + scores[at]) / 2)))


def score_of(asked: Postprocess, given: float | None = None) -> float:
    """Return the threshold of scores that a call has: its own, or the package's."""
    (limits,) = make_thresholds((asked,), given).values()
    return float(limits[0])


def widen(outputs: Outputs) -> dict[str, np.ndarray]:
    """Return the outputs in float64."""
    return {name: np.asarray(value, np.float64) for name, value in outputs.items()}
