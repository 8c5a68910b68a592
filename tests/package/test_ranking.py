from __future__ import annotations

import math

import numpy as np
import pytest

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.ranking import RankedClass, is_ranking, rank_classes

LABELS = ("cat", "dog", "cow", "bee")


def test_logits_become_probabilities() -> None:
    first, second = rank_classes(np.array([[[0.0]], [[2.0]], [[-1.0]], [[1.0]]], np.float32), LABELS, 2)
    total = sum(math.exp(x) for x in (0, 2, -1, 1))
    assert (first.index, first.label) == (1, "dog")
    assert math.isclose(first.probability, math.exp(2) / total)
    assert (second.index, second.label) == (3, "bee")
    assert math.isclose(second.probability, math.e / total)


def test_probabilities_stay() -> None:
    got = rank_classes(np.array([0.25, 0.0, 0.5, 0.25]), None, 3)
    assert got == (RankedClass(2, 0.5, None), RankedClass(0, 0.25, None), RankedClass(3, 0.25, None))


def test_large_logits_do_not_overflow() -> None:
    (best,) = rank_classes(np.array([3e4, 1.0], np.float32), ("a", "b"), 1)
    assert best == RankedClass(0, 1.0, "a")


def test_labels_of_another_output_and_more_than_there_are() -> None:
    assert [each.label for each in rank_classes(np.array([0.1, 0.9]), LABELS, 5)] == [None, None]


def test_an_output_with_more_dimensions_is_no_ranking() -> None:
    assert is_ranking((1, 1000))
    assert is_ranking((5,))
    assert not is_ranking((2, 5))
    assert not is_ranking((1, 1))
    with pytest.raises(TvmbuildError, match=r"the shape \[2, 5\] does not have one score for each class"):
        rank_classes(np.zeros((2, 5)), None, 1)
