"""The choice of the next Task to search: the one with the largest expected gain of latency for its price.

This is pure arithmetic without tvm, after the gradient scheduler of Ansor (Zheng et al., OSDI 2020, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

NOTEWORTHY = 0.99
"""A time below this fraction of the last noteworthy time is an improvement. A smaller gain is noise."""
FIRST_GAIN = 0.15
"""The fraction of its time that a Task's second batch is expected to gain. The n-th batch after the first is expected
to gain 1/n of this fraction.
"""


@dataclass
class Curve:
    """The course of one Task's best time during its search.

    ``weight`` is the number of calls in the model, ``best`` the best time of a call in seconds, ``measured`` the number
    of candidates, and ``spent`` the seconds of searching.
    """

    weight: int
    best: float = math.inf
    measured: int = 0
    stale: int = 0
    """The number of candidates measured since the last noteworthy improvement."""
    spent: float = 0.0
    bests: list[float] = field(default_factory=list)
    """The best time after each batch, in seconds."""
    mark: float = math.inf
    """The best time at the last noteworthy improvement, in seconds. Many small improvements together make a noteworthy
    one.
    """

    def __post_init__(self) -> None:
        self.mark = min(self.mark, self.best)

    def add(self, times: Sequence[float], seconds: float) -> None:
        """Add a batch: the candidates' times in seconds (infinity for a failure), and the seconds that it took."""
        for time in times:
            self.measured += 1
            self.stale += 1
            if time < self.mark * NOTEWORTHY:
                self.stale, self.mark = 0, time
            self.best = min(self.best, time)
        self.bests.append(self.best)
        self.spent += seconds

    def expected_gain(self) -> float:
        """Return the seconds of a call that another batch is expected to save, or infinity before the first batch."""
        if not self.bests:
            return math.inf
        if math.isinf(self.best):
            return 0.0
        guess = FIRST_GAIN / len(self.bests)
        if len(self.bests) > 1 and math.isfinite(self.bests[-2]):
            # The gain of the last batch counts as much as experience with other Tasks.
            guess = (guess + 1 - self.bests[-1] / self.bests[-2]) / 2
        return self.weight * self.best * guess

    def gain_rate(self) -> float:
        """Return the expected gain of another batch for each second that it takes, or infinity before the first."""
        gain = self.expected_gain()
        return gain if not self.bests else gain / max(1e-9, self.spent / len(self.bests))


def choose(curves: Sequence[Curve]) -> int:
    """Return the index of the curve with the highest gain rate, or the first of equal ones.

    A Task without a batch comes before all others, because an unsearched Task costs the model most.
    """
    return max(range(len(curves)), key=lambda index: (curves[index].gain_rate(), -index))


def predict_latency(curves: Sequence[Curve], batches: int) -> float:
    """Return the expected latency of the model, in seconds, after ``batches`` more batches.

    Each batch goes to the Task with the largest expected gain. Tasks without a time are left out.
    """
    known = [curve for curve in curves if math.isfinite(curve.best)]
    latency = sum(curve.weight * curve.best for curve in known)
    gains = sorted(
        (
            curve.weight * curve.best * FIRST_GAIN / (len(curve.bests) + further)
            for curve in known
            for further in range(1, 9)
        ),
        reverse=True,
    )
    return max(0.0, latency - sum(gains[:batches]) / 2)
