"""Medians and ratios with their 95 % intervals, and verdicts in words. This module imports no slow module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["faster", "slower", "no difference"]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval, which contains the true value in 95 of 100 measurements. All are above zero."""

    value: float
    low: float
    high: float

    def to_json(self, value: str) -> dict[str, float]:
        """Return the estimate as a JSON value. ``value`` is the key for the value, beside `low` and `high`."""
        return {value: round(self.value, 5), "low": round(self.low, 5), "high": round(self.high, 5)}


@dataclass(frozen=True)
class Latency:
    """The times of one call in ms, over ``repeat`` samples of ``number`` calls each."""

    median: Estimate
    p95: float
    min: float
    repeat: int
    number: int

    def to_json(self) -> dict[str, float | int]:
        """Return the latency as a JSON value. ``read_latency`` is the inverse."""
        rest = {"p95": round(self.p95, 5), "min": round(self.min, 5), "repeat": self.repeat, "number": self.number}
        return {**self.median.to_json("median"), **rest}


def read_estimate(data: Mapping[str, Any], value: str) -> Estimate:
    """Parse the output of `Estimate.to_json`. Raises KeyError, TypeError or ValueError if it is malformed."""
    read = Estimate(float(data[value]), float(data["low"]), float(data["high"]))
    if not 0 < read.low <= read.value <= read.high < math.inf:
        raise ValueError(f"{read} is not an estimate")
    return read


def read_latency(data: Mapping[str, Any]) -> Latency:
    """Parse the output of `Latency.to_json`. Raises KeyError, TypeError or ValueError if it is malformed."""
    numbers = float(data["p95"]), float(data["min"]), int(data["repeat"]), int(data["number"])
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{numbers} are not times")
    return Latency(read_estimate(data, "median"), *numbers)


def judge(ratio: Estimate) -> Verdict:
    """Return the verdict on the ratio of our time to another program's. The times differ if the interval excludes 1."""
    if ratio.high < 1:
        return "faster"
    return "slower" if ratio.low > 1 else "no difference"


def describe_ratio(ratio: Estimate) -> str:
    """Return the verdict with its factor: ``1.92x faster``, ``1.08x slower``, or ``no difference`` without a factor."""
    verdict = judge(ratio)
    if verdict == "no difference":
        return verdict
    factor = 1 / ratio.value if verdict == "faster" else ratio.value
    return f"{factor:.{2 if factor < 10 else 0}f}x {verdict}"


def divide(first: Estimate, second: Estimate) -> Estimate:
    """Return the ratio ``first`` / ``second`` of two independent estimates, with its interval.

    The interval follows from both intervals by the "method of variance estimates recovery" (Donner and Zou 2012) on
    logarithms.
    """
    a, b = (tuple(math.log(x) for x in (each.value, each.low, each.high)) for each in (first, second))
    middle = a[0] - b[0]
    low = middle - math.hypot(a[0] - a[1], b[2] - b[0])
    high = middle + math.hypot(a[2] - a[0], b[0] - b[1])
    return Estimate(math.exp(middle), math.exp(low), math.exp(high))


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))
