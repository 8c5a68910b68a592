"""Comparison of a cell's latency in two benchmarks: the ratio, and the Tasks whose schedules changed in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import Estimate, divide
from tvmbuild.benchmarking.history import Entry

LEAST_REGRESSION = 1.01
"""The interval of a ratio must lie above this value: by page placement alone two runs of one program differ by 1 %."""
INDEPENDENT = ("onnxruntime", "openvino")
"""The baselines that no change in the project affects: their times show how fast the machine was at the time."""


@dataclass(frozen=True)
class Change:
    """The comparison of two comparable benchmarks of one cell."""

    before: Entry
    after: Entry
    ratio: Estimate
    """The later latency over the earlier one. If ``against`` is set, each was first divided by the baseline's."""
    against: str | None
    """The baseline whose latencies divide both latencies. None if the latencies themselves were compared."""
    blamed: tuple[str, ...] | None
    """The keys of the Tasks whose schedules changed. None if the schedules of a benchmark are unknown."""

    @property
    def is_regression(self) -> bool:
        """Return whether the cell became slower: the whole 95 % interval of the ratio lies above LEAST_REGRESSION."""
        return self.ratio.low > LEAST_REGRESSION


@dataclass(frozen=True)
class Incomparable:
    """A cell without two comparable benchmarks, and the reason in words."""

    cell: str
    reason: str


def compare_cell(cell: str, earlier: Sequence[Entry], history: Sequence[Entry], since: str) -> Change | Incomparable:
    """Compare the cell's newest entry in ``history`` with its newest comparable entry in ``earlier``.

    Returns Incomparable with a reason if it lacks two different comparable entries. ``since`` is a phrase about the
    time of ``earlier``, which the reason quotes.
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
    """Return why the latencies of two entries cannot be compared, as the end of a sentence. None if they can be."""
    then, now = before.result, after.result
    if then.machine.name != now.machine.name:
        return f"on another machine ({then.machine.name}; now {now.machine.name})"
    if then.threads != now.threads:
        return f"with {count(then.threads, 'thread')}, now with {count(now.threads, 'thread')}"
    if then.product.target_digest != now.product.target_digest:
        return "for a target with other attributes"
    return None


def compare_entries(before: Entry, after: Entry) -> Change:
    """Compare two benchmarks with the same cell, machine, number of threads and target.

    If both were timed in turns with the same version of a baseline in INDEPENDENT, their ratios to this baseline are
    compared. This cancels differences in the machine's speed between the two days.
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
    """Return in words how the schedule of a Task changed. ``key`` is one of the keys in ``change.blamed``."""
    if key not in dict(change.before.schedules or ()):
        return "gained a record"
    return "another record" if key in dict(change.after.schedules or ()) else "lost its record"
