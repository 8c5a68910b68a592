"""The classes that a classifier finds most likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmbuild.errors import TvmbuildError


@dataclass(frozen=True)
class RankedClass:
    """One class: its index in the output, probability, and name if the package has labels for this output."""

    index: int
    probability: float
    label: str | None


def is_ranking(shape: Sequence[int]) -> bool:
    """Return whether an output of this shape is one score a class."""
    return sum(size != 1 for size in shape) == 1


def rank_classes(scores: np.ndarray, labels: Sequence[str] | None, count: int) -> tuple[RankedClass, ...]:
    """Return the ``count`` best classes, the best first. Among equal ones the lower index comes first.

    Scores outside [0, 1] are logits, and their softmax is taken; others are probabilities already.
    """
    if not is_ranking(scores.shape):
        raise TvmbuildError(f"an output of the shape {list(scores.shape)} is not one score a class")
    values = scores.reshape(-1).astype(np.float64)
    best = np.argsort(-values, kind="stable")[:count]
    if values.min() < 0 or values.max() > 1:
        values = np.exp(values - values.max())
        values /= values.sum()
    names = labels if labels is not None and len(labels) == values.size else None
    return tuple(RankedClass(int(i), float(values[i]), None if names is None else names[int(i)]) for i in best)
