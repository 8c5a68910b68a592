"""The boxes that a network found, before overlapping ones are dropped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Candidates:
    """The boxes that a network found, before overlapping ones are dropped."""

    boxes: np.ndarray
    """Left, top, right and bottom in the input's pixels [n, 4]."""
    scores: np.ndarray
    """The score of each box, [n]."""
    classes: np.ndarray
    """The index of each box's class, [n], whole numbers."""
    more: np.ndarray
    """The keypoints of a result `keypoints`, or the coefficients of a result `masks` [n, values]."""

    def keep(self, chosen: np.ndarray) -> Candidates:
        """Return the candidates at these places."""
        return Candidates(self.boxes[chosen], self.scores[chosen], self.classes[chosen], self.more[chosen])


def squash(values: np.ndarray) -> np.ndarray:
    """Return the sigmoid of values."""
    with np.errstate(over="ignore"):  # an infinite exponential is a sigmoid of 0
        squashed: np.ndarray = 1 / (1 + np.exp(-values))
    return squashed


def unsquash(score: float) -> float:
    """Return the value whose sigmoid is a score, or the limit if there is none."""
    if not 0 < score < 1:
        return -math.inf if score <= 0 else math.inf
    return math.log(score / (1 - score))
