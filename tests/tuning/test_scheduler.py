"""The Task that is searched next, as a table of values."""

from __future__ import annotations

import math

import pytest

from tvmbuild.tuning.scheduler import Curve, choose, predict_latency

INF = math.inf


def curve(weight: int, *batches: list[float], seconds: float = 10.0) -> Curve:
    made = Curve(weight)
    for batch in batches:
        made.add(batch, seconds)
    return made


def test_a_task_without_a_batch_comes_first_in_the_order_given() -> None:
    assert choose([curve(100, [1.0]), curve(1), curve(2)]) == 1


@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        ([curve(1, [1.0]), curve(2, [1.0])], 1),  # called twice
        ([curve(1, [3.0]), curve(1, [1.0])], 0),  # takes longer
        ([curve(1, [1.0], [1.0]), curve(1, [1.0], [0.7])], 1),  # still improves
        ([curve(1, [1.0], seconds=30.0), curve(1, [1.0])], 1),  # the same gain for less
        ([curve(1, [INF]), curve(1, [1e-6])], 1),  # no candidate runs: no gain in sight
        ([curve(1, [1.0], [1.0], [1.0]), curve(1, [0.9])], 1),  # searched for long
        ([curve(1, [1.0]), curve(1, [1.0])], 0),  # the first of equals
    ],
)
def test_the_next_batch_goes_where_it_shortens_the_model_most_for_its_price(curves: list[Curve], expected: int) -> None:
    assert choose(curves) == expected


def test_stale_counts_candidates_since_the_last_noteworthy_improvement() -> None:
    made = curve(1, [INF, 1.0, 2.0], [0.995, 1.5])
    assert (made.best, made.measured, made.stale) == (0.995, 5, 3)
    made.add([0.9], 1.0)
    assert (made.best, made.stale) == (0.9, 0)
    assert made.bests == [1.0, 0.995, 0.9]
    assert made.spent == 21.0


def test_many_small_improvements_are_one() -> None:
    made = curve(1, [1.0])
    made.add([0.996, 0.993, 0.988], 1.0)
    assert (made.best, made.stale) == (0.988, 0)


def test_a_known_best_counts_before_the_first_batch() -> None:
    made = Curve(1, best=1.0)
    made.add([2.0, 3.0], 1.0)
    assert (made.best, made.stale) == (1.0, 2)


def test_the_predicted_latency_falls_with_batches_and_not_below_what_they_can_gain() -> None:
    curves = [curve(2, [1.0]), curve(1, [1.0])]
    now, one, many = (predict_latency(curves, batches) for batches in (0, 1, 1000))
    assert now == 3.0
    assert 0 < many < one < now
    assert predict_latency([curve(1, [INF])], 3) == 0.0
