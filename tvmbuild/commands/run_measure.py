"""What `tvmbuild run` measures of a package that a worker holds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmbuild.devices.local import Worker
from tvmbuild.devices.peak import measure_peak
from tvmbuild.host_cpu import cpu_name
from tvmbuild.package.profile import OperatorRow, Peak

WARM_UP_S = 0.3
BUDGET_S = 10.0
"""Of the samples, where the user names no number of them."""
MOST_SAMPLES = 50
LEAST_SAMPLES = 5


@dataclass(frozen=True)
class Latency:
    """Milliseconds a call, over ``repeat`` samples of ``number`` calls each."""

    median: float
    mean: float
    min: float
    max: float
    std: float
    repeat: int
    number: int


@dataclass(frozen=True)
class Measurement:
    """What was measured, and where; ``rows`` and ``peak`` belong to a profile."""

    machine: str
    threads: int
    latency: Latency
    rows: tuple[OperatorRow, ...] = ()
    peak: Peak | None = None


def measure_latency(worker: Worker, number: int, repeat: int | None) -> Measurement:
    """Time the model; hold the device's lock."""
    call_ms = worker.warm_up(WARM_UP_S)
    samples = worker.time(number, repeat or count_samples(call_ms * number))
    return Measurement(cpu_name(), worker.threads, summarize(samples, number))


def add_profile(worker: Worker, measurement: Measurement, *, peak: bool) -> Measurement:
    """Time the operators, with ``peak`` the machine as well; the worker is paused then. Hold the device's lock."""
    rows = worker.profile(measurement.latency.repeat)
    worker.pause()
    return replace(measurement, rows=rows, peak=measure_peak(worker.threads) if peak else None)


def count_samples(sample_ms: float) -> int:
    """Return how many samples fit the budget, within reason."""
    return max(LEAST_SAMPLES, min(MOST_SAMPLES, int(BUDGET_S * 1000 / max(sample_ms, 1e-3))))


def summarize(samples: Sequence[float], number: int) -> Latency:
    """Return the statistics of samples in ms."""
    spread = statistics.stdev(samples) if len(samples) > 1 else 0.0
    middle, mean = statistics.median(samples), statistics.fmean(samples)
    return Latency(middle, mean, min(samples), max(samples), spread, len(samples), number)
