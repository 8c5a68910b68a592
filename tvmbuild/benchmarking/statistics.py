"""Medians and ratios of samples that were taken in rounds, with bootstrap intervals.

Calls of one round are alike, because they share the clock rate, the caches' state and the machine's other work. The
bootstrap therefore draws rounds, not calls. For two contenders it draws the same rounds, because a disturbance during
a round affects both. The random generator has a fixed seed, so equal samples give equal intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmbuild.benchmarking.estimates import Estimate, Latency

RESAMPLES = 2000
SEED = 0
TAILS = (2.5, 97.5)
"""The percentiles that are the ends of the 95 % interval."""


@dataclass(frozen=True)
class Samples:
    """The times of one contender. Each of its rounds has the same number of samples."""

    rounds: tuple[int, ...]
    """The indices of the rounds in which the contender took part, ascending."""
    ms: tuple[tuple[float, ...], ...]
    """The samples in ms per call, one tuple for each entry of ``rounds``."""
    number: int
    """The number of calls in one sample, whose value is the mean time of these calls."""


def summarize(samples: Samples) -> Latency:
    """Return the samples' median with its 95 % interval, their 95th percentile (by nearest rank) and their minimum."""
    table = np.array(samples.ms)
    medians = _medians(table, _draw_rounds(len(table)))
    ordered = np.sort(table, axis=None)
    p95 = float(ordered[max(0, math.ceil(0.95 * ordered.size) - 1)])
    median = _estimate(float(np.median(ordered)), medians)
    return Latency(median, p95, float(ordered[0]), int(ordered.size), samples.number)


def estimate_ratio(first: Samples, second: Samples) -> Estimate:
    """Return the ratio of the medians, ``first`` / ``second``, from the rounds that both have.

    Raises ValueError if they have no round in common.
    """
    shared = sorted(set(first.rounds) & set(second.rounds))
    if not shared:
        raise ValueError("the contenders took part in no common round")
    tables = [np.array(_pick(samples, shared)) for samples in (first, second)]
    draws = _draw_rounds(len(shared))
    ratios = _medians(tables[0], draws) / _medians(tables[1], draws)
    return _estimate(float(np.median(tables[0]) / np.median(tables[1])), ratios)


def _pick(samples: Samples, rounds: Sequence[int]) -> list[tuple[float, ...]]:
    by_round = dict(zip(samples.rounds, samples.ms, strict=True))
    return [by_round[index] for index in rounds]


def _draw_rounds(count: int) -> np.ndarray:
    """Return RESAMPLES rows of ``count`` indices of rounds, drawn with replacement."""
    return np.random.RandomState(SEED).randint(0, count, (RESAMPLES, count))


def _medians(table: np.ndarray, draws: np.ndarray) -> np.ndarray:
    medians: np.ndarray = np.median(table[draws].reshape(len(draws), -1), axis=1)
    return medians


def _estimate(value: float, resampled: np.ndarray) -> Estimate:
    low, high = np.percentile(resampled, TAILS)
    return Estimate(value, min(float(low), value), max(float(high), value))
