from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmbuild.benchmarking.estimates import (
    Estimate,
    describe_ratio,
    divide,
    geometric_mean,
    judge,
    read_estimate,
    read_latency,
)

positive = st.floats(1e-3, 1e6)
estimates = st.tuples(positive, st.floats(0, 0.5), st.floats(0, 0.5)).map(
    lambda given: Estimate(given[0], given[0] * (1 - given[1]), given[0] * (1 + given[2]))
)


@pytest.mark.parametrize(
    ("ratio", "verdict", "words"),
    [
        (Estimate(0.5, 0.4, 0.99), "faster", "2.00x faster"),
        (Estimate(1.25, 1.01, 1.5), "slower", "1.25x slower"),
        (Estimate(0.9, 0.8, 1.0), "no difference", "no difference"),
        (Estimate(1.1, 1.0, 1.2), "no difference", "no difference"),
        (Estimate(1.0, 1.0, 1.0), "no difference", "no difference"),
        (Estimate(0.01, 0.009, 0.02), "faster", "100x faster"),
    ],
)
def test_a_difference_needs_an_interval_without_one(ratio: Estimate, verdict: str, words: str) -> None:
    assert judge(ratio) == verdict
    assert describe_ratio(ratio) == words


@given(estimates, estimates)
def test_a_quotient_is_within_its_interval(first: Estimate, second: Estimate) -> None:
    ratio = divide(first, second)
    assert ratio.value == pytest.approx(first.value / second.value)
    assert ratio.low <= ratio.value * (1 + 1e-9)
    assert ratio.high >= ratio.value * (1 - 1e-9)
    # Never narrower than either side, never wider than both ends against each other.
    assert ratio.low <= first.low / second.value * (1 + 1e-9)
    assert ratio.low >= first.low / second.high * (1 - 1e-9)
    assert ratio.high >= first.value / second.low * (1 - 1e-9)
    assert ratio.high <= first.high / second.low * (1 + 1e-9)


@given(estimates, estimates)
def test_a_quotient_turned_round_is_the_inverse(first: Estimate, second: Estimate) -> None:
    there, back = divide(first, second), divide(second, first)
    assert back.value == pytest.approx(1 / there.value)
    assert back.low == pytest.approx(1 / there.high)
    assert back.high == pytest.approx(1 / there.low)


def test_an_exact_divisor_only_scales() -> None:
    ratio = divide(Estimate(4.0, 3.0, 6.0), Estimate(2.0, 2.0, 2.0))
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 1.5, 3.0))


def test_values_survive_json() -> None:
    assert read_estimate(Estimate(2.0, 1.5, 2.25).to_json("median"), "median") == Estimate(2.0, 1.5, 2.25)
    data = {"median": 2.0, "low": 1.0, "high": 3.0, "p95": 4.0, "min": 0.5, "repeat": 60, "number": 2}
    assert read_latency(data).to_json() == data


@pytest.mark.parametrize("damage", [{"low": 2.5}, {"high": 1.5}, {"low": 0}, {"high": math.inf}, {"value": math.nan}])
def test_what_is_no_estimate_is_refused(damage: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is not an estimate"):
        read_estimate({"value": 2.0, "low": 1.5, "high": 2.25} | damage, "value")


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert geometric_mean([3.0]) == pytest.approx(3.0)
