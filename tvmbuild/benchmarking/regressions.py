"""Comparison of a cell's latency then and now: the difference, and the Tasks whose schedules changed in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import Estimate, divide
from tvmbuild.benchmarking.history import Entry

LEAST_REGRESSION = 1.01
"""The ratio that the interval must exceed: two processes of one program differ as much by page placement."""
INDEPENDENT = ("onnxruntime", "openvino")
"""Baselines that no change in the project affects: their times show the machine's speed at the time."""


@dataclass(frozen=True)
class Change:
    """Two comparable benchmarks of one cell."""

    before: Entry
    after: Entry
    ratio: Estimate
    """The time now over the time then."""
    against: str | None
    """The baseline that divides both times. None: the times themselves were compared."""
    blamed: tuple[str, ...] | None
    """The keys of the Tasks whose schedule changed. None: not known."""

    @property
    def is_regression(self) -> bool:
        """Return whether it is slower now, by more than the measurements' uncertainty and LEAST_REGRESSION."""
        return self.ratio.low > LEAST_REGRESSION


@dataclass(frozen=True)
class Incomparable:
    """A cell without two comparable benchmarks."""

    cell: str
    reason: str


def compare_cell(cell: str, earlier: Sequence[Entry], history: Sequence[Entry], since: str) -> Change | Incomparable:
    """Compare the newest entry of the history with the newest comparable one of ``earlier``.

    ``since`` describes ``earlier`` in words.
    """
    after = _find_newest(history, cell)
    if after is None:
        return Incomparable(cell, "it was never benchmarked here")
    candidates = [entry for entry in earlier if entry.result.cell == cell]
    if not candidates:
        return Incomparable(cell, f"there is no benchmark of it {since}")
    comparable = [entry for entry in candidates if explain_difference(entry, after) is None]
    if not comparable:
        return Incomparable(cell, f"the one {since} was measured {explain_difference(candidates[-1], after)}")
    if comparable[-1] == after:
        return Incomparable(cell, f"nothing was measured after the one {since}")
    return compare_entries(comparable[-1], after)


def _find_newest(entries: Iterable[Entry], cell: str) -> Entry | None:
    found = [entry for entry in entries if entry.result.cell == cell]
    return found[-1] if found else None


def explain_difference(before: Entry, after: Entry) -> str | None:
    """Return why their times cannot be compared, as the end of a sentence. None: they can."""
    then, now = before.result, after.result
    if then.machine.name != now.machine.name:
        return f"on another machine ({then.machine.name}; now {now.machine.name})"
    if then.threads != now.threads:
        return f"with {count(then.threads, 'thread')}, now with {count(now.threads, 'thread')}"
    if then.product.target_digest != now.product.target_digest:
        return "for a target with other attributes"
    return None


def compare_entries(before: Entry, after: Entry) -> Change:
    """Compare two benchmarks of the same cell, machine, threads and target.

    If both were timed in turns with the same version of an independent baseline, the ratios to it are compared: the
    machine's speed of the day is in both times and cancels out.
    """
    then = {(rival.name, rival.version): rival.ratio for rival in before.result.rivals if rival.name in INDEPENDENT}
    shared = [rival for rival in after.result.rivals if (rival.name, rival.version) in then]
    if shared:
        ratio = divide(shared[0].ratio, then[shared[0].name, shared[0].version])
    else:
        ratio = divide(after.result.latency.median, before.result.latency.median)
    return Change(before, after, ratio, shared[0].name if shared else None, _list_changed(before, after))


def _list_changed(before: Entry, after: Entry) -> tuple[str, ...] | None:
    if before.schedules is None or after.schedules is None:
        return None
    then, now = before.schedules, after.schedules
    return tuple(key for key in sorted(then.keys() | now.keys()) if then.get(key) != now.get(key))


def describe_schedule(change: Change, key: str) -> Literal["gained a record", "lost its record", "another record"]:
    """Return the change of a blamed Task's schedule, in words."""
    if key not in dict(change.before.schedules or ()):
        return "gained a record"
    return "another record" if key in dict(change.after.schedules or ()) else "lost its record"
