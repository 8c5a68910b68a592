"""Timing of calls of a function that runs a model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WARM_UP_S = 0.5
BUDGET_S = 10.0
"""The time for all samples, in seconds. It determines their number if the user does not."""
MAX_SAMPLES = 50
LEAST_SAMPLES = 5


@dataclass(frozen=True)
class Latency:
    """Statistics of the time of one call, in ms, over ``repeat`` samples of ``number`` calls each."""

    median: float
    mean: float
    min: float
    max: float
    std: float
    repeat: int
    number: int


def time_calls(
    call: Callable[[], object], number: int, repeat: int, beat: Callable[[], None] = lambda: None
) -> list[float]:
    """Return ``repeat`` samples in ms, each the mean time of ``number`` calls. ``beat`` is called after each sample."""
    samples = []
    for _ in range(repeat):
        start = time.perf_counter_ns()
        for _ in range(number):
            call()
        samples.append((time.perf_counter_ns() - start) / number / 1e6)
        beat()
    return samples


def warm_up(call: Callable[[], object], seconds: float, beat: Callable[[], None] = lambda: None) -> float:
    """Make calls for about ``seconds``, but at least two, and return the time of the last one in ms.

    ``beat`` is called after each call.
    """
    end = time.perf_counter() + seconds
    time_calls(call, 1, 1, beat)
    while True:
        last = time_calls(call, 1, 1, beat)[0]
        if time.perf_counter() >= end:
            return last


def count_samples(sample_ms: float) -> int:
    """Return how many samples of ``sample_ms`` each fit into BUDGET_S: at least LEAST_SAMPLES, at most MAX_SAMPLES."""
    return max(LEAST_SAMPLES, min(MAX_SAMPLES, int(BUDGET_S * 1000 / max(sample_ms, 1e-3))))


def summarize(samples: Sequence[float], number: int) -> Latency:
    """Return the statistics of samples in ms. A sample is the mean of ``number`` calls."""
    spread = statistics.stdev(samples) if len(samples) > 1 else 0.0
    middle, mean = statistics.median(samples), statistics.fmean(samples)
    return Latency(middle, mean, min(samples), max(samples), spread, len(samples), number)
