from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvmbuild.benchmarking.estimates import judge
from tvmbuild.benchmarking.statistics import Samples, estimate_ratio, summarize


def make_samples(table: np.ndarray, stride: int = 1) -> Samples:
    rounds = tuple(stride * index for index in range(len(table)))
    return Samples(rounds, tuple(tuple(float(ms) for ms in row) for row in table), 1)


@st.composite
def samples(draw: st.DrawFn) -> Samples:
    rounds, each = draw(st.integers(1, 20)), draw(st.integers(1, 4))
    values = st.floats(0.01, 1000.0)
    table = draw(st.lists(st.lists(values, min_size=each, max_size=each), min_size=rounds, max_size=rounds))
    return make_samples(np.array(table))


def simulate(seed: int, slowdown: float, drift: float, noise: float) -> tuple[Samples, Samples]:
    """Return two contenders on a machine whose speed differs from round to round, but not within one."""
    random = np.random.RandomState(seed)
    speed = np.exp(drift * random.standard_normal((20, 1)))
    first, second = (np.exp(noise * random.standard_normal((20, 3))) * speed for _ in range(2))
    return make_samples(first * slowdown), make_samples(second)


@given(samples())
@settings(max_examples=50, deadline=None)
def test_the_median_lies_in_its_interval_and_that_in_the_samples(given: Samples) -> None:
    found = summarize(given)
    flat = sorted(ms for row in given.ms for ms in row)
    assert found.median.value == pytest.approx(float(np.median(flat)))
    assert flat[0] == found.min <= found.median.low <= found.median.value <= found.median.high <= flat[-1]
    assert found.repeat == len(flat)
    assert found.p95 in flat


@given(samples(), st.floats(0.1, 10.0))
@settings(max_examples=50, deadline=None)
def test_units_do_not_matter(given: Samples, factor: float) -> None:
    scaled = make_samples(np.array(given.ms) * factor)
    for one, other in ((summarize(given).median, summarize(scaled).median),):
        expected = (one.value * factor, one.low * factor, one.high * factor)
        assert (other.value, other.low, other.high) == pytest.approx(expected)
    ratio = estimate_ratio(scaled, given)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((factor, factor, factor))


@given(samples())
@settings(max_examples=20, deadline=None)
def test_the_same_samples_give_the_same_intervals(given: Samples) -> None:
    assert summarize(given) == summarize(given)
    assert estimate_ratio(given, given) == estimate_ratio(given, given)


def test_p95_and_minimum() -> None:
    permuted = np.random.RandomState(0).permutation(100).reshape(20, 5) + 1.0
    found = summarize(make_samples(permuted))
    assert (found.median.value, found.p95, found.min, found.repeat) == (50.5, 95.0, 1.0, 100)


def test_equal_programs_show_no_difference() -> None:
    wrong = sum(
        judge(estimate_ratio(*simulate(seed, 1.0, drift=0.1, noise=0.02))) != "no difference" for seed in range(100)
    )
    assert wrong <= 12  # an exact 95 % interval gives 5


def test_a_small_difference_is_seen_through_a_drift() -> None:
    """A difference of 5 % is found although the machine's speed differs by 20 % between rounds: rounds share it."""
    for seed in range(20):
        ratio = estimate_ratio(*simulate(seed, 1.05, drift=0.2, noise=0.01))
        assert judge(ratio) == "slower"
        assert ratio.value == pytest.approx(1.05, rel=0.04)


def test_calls_of_a_round_count_as_one_draw() -> None:
    """Twenty equal calls a round carry no more information than one; an interval from single calls would shrink."""
    random = np.random.RandomState(3)
    rounds = np.exp(0.1 * random.standard_normal((20, 1)))
    one, many = (summarize(make_samples(np.repeat(rounds, count, axis=1))).median for count in (1, 20))
    assert many.high - many.low == pytest.approx(one.high - one.low, rel=0.35)


def test_a_slow_contender_is_compared_in_its_own_rounds() -> None:
    """In the slow one's rounds the machine was twice as slow; the ratio must not count that as a difference."""
    speed = np.where(np.arange(20) % 4 == 0, 2.0, 1.0)[:, None]
    quick, slow = make_samples(speed * np.ones((20, 3))), make_samples(np.full((5, 1), 2.0), stride=4)
    assert estimate_ratio(quick, slow).value == 1.0


def test_contenders_that_never_met_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="no common round"):
        estimate_ratio(Samples((0,), ((1.0,),), 1), Samples((1,), ((1.0,),), 1))
