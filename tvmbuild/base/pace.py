"""The progress of long work: done, total, rate, and remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable

from tvmbuild.base.progress import report_progress

_SETTLED_S = 1.0
"""The time in seconds before which a rate is unreliable."""


class Pace:
    """The progress of one piece of work. ``total`` is the amount in ``unit``, or None if it is not known."""

    def __init__(self, what: str, total: float | None, unit: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._total, self._unit, self._clock = what, total, unit, clock
        self._start = clock()

    def report(self, done: float) -> None:
        """Show the progress after the amount ``done``, in the unit, as `report_progress` does."""
        report_progress(self.describe(done))

    def describe(self, done: float) -> str:
        """Return the progress after the amount ``done`` in words: ``timing: 5 of 20 rounds, 6 s left, 2.5/s``."""
        of = "" if self._total is None else f" of {self._total:.0f}"
        parts = [f"{self._what}: {done:.0f}{of} {self._unit}"]
        seconds = self._clock() - self._start
        if done > 0 and seconds >= _SETTLED_S:
            rate = done / seconds
            if self._total is not None:
                parts.append(f"{describe_left(max(0.0, self._total - done) / rate)} left")
            parts.append(f"{rate:.2g}/s" if rate < 100 else f"{rate:.0f}/s")
        return ", ".join(parts)


def describe_left(seconds: float) -> str:
    """Return the duration in words, rounded: ``40 s``, ``12 min``, ``1.5 h``."""
    return " ".join(round_duration(seconds))


def round_duration(seconds: float) -> tuple[str, str]:
    """Return the rounded duration and its unit: ``s``, ``min`` or ``h``."""
    if seconds < 60:
        return f"{seconds:.0f}", "s"
    return (f"{seconds / 60:.0f}", "min") if seconds < 2 * 3600 else (f"{seconds / 3600:.1f}", "h")
