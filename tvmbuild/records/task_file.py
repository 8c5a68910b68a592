"""One Task's record file as a value, and what a search does to it. Pure; no tvm here."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TypeVar

from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Attributes

FIRST_RULES = 1
"""The rules of files that name none."""
BEST = 5
"""Traces kept for each device class."""
N = TypeVar("N", int, float)
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def code_of(target: str) -> str:
    """Return what of a target's canonical JSON text must be equal for its records to apply.

    The CPU beside a GPU need not be: no kernel depends on it, and no kernel's time.
    """
    value = json.loads(target)
    value.pop("host", None)
    return canonical_json(value)


@dataclass(frozen=True)
class ResolvedTarget:
    """What code generation sees of a target; a record applies only where :func:`code_of` it is equal."""

    kind: str
    attributes: Attributes
    host: Attributes = FrozenMap()

    def to_json(self) -> dict[str, Json]:
        """Return the form that record files hold: lists for tuples."""
        value: dict[str, Json] = json.loads(
            canonical_json({"kind": self.kind, "attributes": self.attributes, "host": self.host})
        )
        return value


@dataclass(frozen=True)
class Record:
    """One measured schedule. ``trace`` is canonical JSON text of ``{"instructions": …, "decisions": …}``."""

    trace: str
    seconds: float
    """Median run time."""
    measured_on: str
    """Device class: the CPU's LLVM name, or a board's."""
    threads: int
    tvm: str
    """Version of TVM that measured it."""


@dataclass(frozen=True)
class TaskFile:
    """One Task's file."""

    key: str
    name: str
    workload: str
    """TVM's JSON text of the IRModule. Kept as text: it may hold infinities, which JSON has no word for."""
    target: str
    """Canonical JSON text of ResolvedTarget.to_json()."""
    tvm: str
    records: tuple[Record, ...] = ()
    searched: FrozenMap[str, int] = FrozenMap()
    """Device class → candidates measured so far, sorted."""
    exhausted: tuple[str, ...] = ()
    """Device classes whose search found no new candidate any more."""
    settled: FrozenMap[str, int] = FrozenMap()
    """Device class → candidates in a row that brought nothing when its search was given up, sorted."""
    rules: FrozenMap[str, int] = FrozenMap()
    """Device class → version of the rules whose schedules it has measured, sorted; an absent class: FIRST_RULES."""
    spent: FrozenMap[str, float] = FrozenMap()
    """Device class → wall seconds of searching, building and timing so far, sorted; an absent class: unknown."""

    @property
    def code(self) -> str:
        """What must be equal of the target that its records are to be used for."""
        return code_of(self.target)

    def searched_on(self, device_class: str) -> int:
        """Return how many candidates that device class has measured."""
        return self.searched.get(device_class, 0)

    def spent_on(self, device_class: str) -> float | None:
        """Return how many seconds that device class has put into the Task; None: unknown."""
        return self.spent.get(device_class)

    @property
    def most_searched(self) -> int:
        """How many candidates the device class that did most has measured."""
        return max(self.searched.values(), default=0)

    @property
    def classes(self) -> tuple[str, ...]:
        """Every device class that has a record or has searched, sorted."""
        return tuple(sorted({record.measured_on for record in self.records} | self.searched.keys()))

    def best_on(self, device_class: str) -> tuple[Record, ...]:
        """Return the device class's records, fastest first."""
        return tuple(record for record in self.records if record.measured_on == device_class)

    def with_results(
        self, device_class: str, records: tuple[Record, ...], measured: int, seconds: float = 0.0
    ) -> TaskFile:
        """Return the file after ``measured`` more candidates, of which ``records`` ran: the best BEST are kept.

        ``seconds`` is the wall time that it took; 0 leaves what is known, or unknown, as it is. Where earlier
        candidates were counted and their time was not, it stays unknown: it would seem to be the time of all.
        """
        spent = self.spent
        if seconds and (device_class in spent or not self.searched_on(device_class)):
            spent = _with(spent, device_class, round(spent.get(device_class, 0.0) + seconds, 2))
        return replace(
            self,
            records=keep_best((*self.records, *records)),
            searched=_with(self.searched, device_class, self.searched_on(device_class) + measured),
            spent=spent,
        )

    def with_times(self, records: tuple[Record, ...]) -> TaskFile:
        """Return the file with the times of these traces replaced: they were measured again, with care."""
        again = {(record.measured_on, record.trace) for record in records}
        others = tuple(record for record in self.records if (record.measured_on, record.trace) not in again)
        return replace(self, records=keep_best((*others, *records)))

    def is_settled(self, patience: int | None) -> bool:
        """Return whether some device class gave up after that many candidates, or more, that brought nothing."""
        return patience is not None and any(count >= patience for count in self.settled.values())

    def with_settled(self, device_class: str, candidates: int) -> TaskFile:
        """Return the file with that device class's search given up after so many candidates that brought nothing."""
        return replace(self, settled=_with(self.settled, device_class, candidates))

    def list_lagging(self, rules: int) -> list[str]:
        """Return the device classes that have searched before the rules were what they are now."""
        return [name for name in self.searched if self.rules.get(name, FIRST_RULES) < rules]

    def with_rules(self, device_class: str, rules: int) -> TaskFile:
        """Return the file with the schedules of those rules measured."""
        return replace(self, rules=_with(self.rules, device_class, rules))

    def with_exhausted(self, device_class: str) -> TaskFile:
        """Return the file with that device class marked: more trials would find nothing new."""
        return replace(self, exhausted=tuple(sorted({*self.exhausted, device_class})))


def _with(counts: FrozenMap[str, N], name: str, count: N) -> FrozenMap[str, N]:
    return FrozenMap(sorted({**counts, name: count}.items()))


def keep_best(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Return the BEST fastest distinct traces of each device class, sorted by (class, time, trace)."""
    fastest: dict[tuple[str, str], Record] = {}
    for record in records:
        known = fastest.get((record.measured_on, record.trace))
        if known is None or _order(record) < _order(known):
            fastest[record.measured_on, record.trace] = record
    kept: list[Record] = []
    counts: dict[str, int] = {}
    for record in sorted(fastest.values(), key=lambda r: (r.measured_on, r.seconds, r.trace)):
        counts[record.measured_on] = counts.get(record.measured_on, 0) + 1
        if counts[record.measured_on] <= BEST:
            kept.append(record)
    return tuple(kept)


def _order(record: Record) -> tuple[float, int, str]:
    """Order records of one class and trace: all that may differ counts, so that no order of merging matters."""
    return (record.seconds, record.threads, record.tvm)
