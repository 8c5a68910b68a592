"""The most likely classes in a classifier's output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmbuild.errors import TvmbuildError


@dataclass(frozen=True)
class RankedClass:
    """A class with its probability."""

    index: int
    """The index of the class in the output."""
    probability: float
    label: str | None
    """The name of the class, or None if the package has no labels for this output."""


def is_ranking(shape: Sequence[int]) -> bool:
    """Return whether an output of this shape has one score per class: all dimensions except one are 1."""
    return sum(size != 1 for size in shape) == 1


def rank_classes(scores: np.ndarray, labels: Sequence[str] | None, count: int) -> tuple[RankedClass, ...]:
    """Return the ``count`` most likely classes, the best first. Of equal classes the lower index comes first.

    If a score lies outside [0, 1], the scores are logits and their softmax is taken; otherwise they are probabilities.
    Raises TvmbuildError if ``scores`` does not have one score per class.
    """
    if not is_ranking(scores.shape):
        raise TvmbuildError(f"an output of the shape {list(scores.shape)} does not have one score for each class")
    values = scores.reshape(-1).astype(np.float64)
    best = np.argsort(-values, kind="stable")[:count]
    if values.min() < 0 or values.max() > 1:
        values = np.exp(values - values.max())
        values /= values.sum()
    names = labels if labels is not None and len(labels) == values.size else None
    return tuple(RankedClass(int(i), float(values[i]), None if names is None else names[int(i)]) for i in best)
