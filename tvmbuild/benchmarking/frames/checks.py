"""The comparison of a package's results with its outputs, in a form that all kinds of results share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SCORE_ROOM, SCORE_SHARE = 1e-5, 1e-4
"""The difference of a score that rounding can make: absolute, and as a share of the score."""
PIXEL_ROOM = 0.01
"""The difference of a coordinate that rounding can make, in pixels."""
SAME_OUTPUTS = 1e-5
"""The difference of outputs that two calls of the same network may have, as a share of the largest."""


@dataclass(frozen=True)
class ResultCheck:
    """The comparison of results with the reference."""

    count: int
    """The number of results."""
    score_error: float
    """The largest difference of a score."""
    place_error: float | None
    """The largest difference of a coordinate in pixels. None: the results have no place."""
    problem: str | None
    """The first fault; None if all is right."""


def allow_score(score: Any) -> Any:
    """Return the difference that a score, or each score of an array, may have."""
    return SCORE_ROOM + SCORE_SHARE * abs(score)


def find_difference(got: np.ndarray, want: np.ndarray) -> float | None:
    """Return the largest difference of two outputs of the same shape if two calls cannot explain it, else None.

    NaN equals NaN; the difference is infinite if only one of two elements is finite.
    """
    got, want = (each.astype(np.float64) for each in (got, want))
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(got) & np.isfinite(want)
    apart = np.where(finite, np.abs(np.where(finite, got, 0) - np.where(finite, want, 0)), np.where(same, 0, np.inf))
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
    worst = float(apart.max(initial=0.0))
    return worst if worst > SAME_OUTPUTS * largest else None
