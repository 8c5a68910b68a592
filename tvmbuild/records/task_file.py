"""The record file of one Task as a value, and its changes by a search. This module is pure and imports no tvm."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TypeVar

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap

FIRST_RULES = 1
"""The version of the rules in record files that state none."""
BEST = 5
"""The largest number of traces kept for each device class."""
N = TypeVar("N", int, float)
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def code_of(target: str) -> str:
    """Return the part of a target's canonical JSON text that must be equal for records to apply.

    The CPU beside a GPU is not part of it: no kernel, and no kernel's time, depends on that CPU.
    """
    value = json.loads(target)
    value.pop("host", None)
    return canonical_json(value)


@dataclass(frozen=True)
class ResolvedTarget:
    """The facts of a target that code generation sees. A record applies only if their :func:`code_of` is equal."""

    kind: str
    attributes: Attributes
    host: Attributes = FrozenMap()

    def to_json(self) -> dict[str, Json]:
        """Return the JSON value in record files, with lists for tuples."""
        value: dict[str, Json] = json.loads(
            canonical_json({"kind": self.kind, "attributes": self.attributes, "host": self.host})
        )
        return value


@dataclass(frozen=True)
class Record:
    """One measured schedule. ``trace`` is canonical JSON text of ``{"instructions": …, "decisions": …}``."""

    trace: str
    """The canonical JSON text of the schedule's instructions and decisions."""
    seconds: float
    """The median run time, in seconds."""
    measured_on: str
    """The device class that measured it: the CPU's LLVM name, a GPU's name, or a board's name."""
    threads: int
    """The threads of a call."""
    tvm: str
    """The version of TVM that measured it."""


@dataclass(frozen=True)
class TaskFile:
    """The record file of one Task."""

    key: str
    """The digest of the workload without names, 16 hex digits."""
    name: str
    """The name of the fused operator, for example conv2d_add_maximum_minimum."""
    workload: str
    """TVM's JSON text of the IRModule; kept as text, because it may hold infinities, which JSON cannot express."""
    target: str
    """The target's kind, attributes and host, as canonical JSON text. Records apply if the first two are equal."""
    tvm: str
    """The version of TVM."""
    records: tuple[Record, ...] = ()
    """The best five distinct traces of each device class, the fastest first."""
    searched: FrozenMap[str, int] = FrozenMap()
    """Device class → number of candidates measured so far, sorted."""
    exhausted: tuple[str, ...] = ()
    """The device classes whose search has found all candidates."""
    settled: FrozenMap[str, int] = FrozenMap()
    """Device class → number of candidates in a row without a gain after which its search was given up, sorted."""
    rules: FrozenMap[str, int] = FrozenMap()
    """Device class → version of the rules whose schedules it has measured, sorted. An absent class has FIRST_RULES."""
    spent: FrozenMap[str, float] = FrozenMap()
    """Device class → wall seconds of searching, building and timing so far, sorted. A class is absent if unknown."""

    @property
    def code(self) -> str:
        """The part of the target that must be equal for the records to apply."""
        return code_of(self.target)

    def searched_on(self, device_class: str) -> int:
        """Return the number of candidates that the device class has measured."""
        return self.searched.get(device_class, 0)

    def spent_on(self, device_class: str) -> float | None:
        """Return the wall seconds that the device class has spent on the Task, or None if they are unknown."""
        return self.spent.get(device_class)

    @property
    def most_searched(self) -> int:
        """The largest number of candidates that one device class has measured."""
        return max(self.searched.values(), default=0)

    @property
    def classes(self) -> tuple[str, ...]:
        """All device classes that have a record or have searched, sorted."""
        return tuple(sorted({record.measured_on for record in self.records} | self.searched.keys()))

    def best_on(self, device_class: str) -> tuple[Record, ...]:
        """Return the records of the device class, the fastest first."""
        return tuple(record for record in self.records if record.measured_on == device_class)

    def with_results(
        self, device_class: str, records: tuple[Record, ...], measured: int, seconds: float = 0.0
    ) -> TaskFile:
        """Return the file with ``measured`` more candidates counted and the ``records`` added. The best BEST are kept.

        ``seconds`` is the wall time that the candidates took; 0 leaves the recorded time as it is. If earlier
        candidates were counted without their time, the time stays unknown, because it would look like the time of all
        candidates.
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
        """Return the file with the ``records``, from a second timing, in place of its records of the same traces."""
        again = {(record.measured_on, record.trace) for record in records}
        others = tuple(record for record in self.records if (record.measured_on, record.trace) not in again)
        return replace(self, records=keep_best((*others, *records)))

    def is_settled(self, patience: int | None) -> bool:
        """Return whether a device class gave up after at least ``patience`` candidates without a gain.

        If ``patience`` is None, no search is given up.
        """
        return patience is not None and any(count >= patience for count in self.settled.values())

    def with_settled(self, device_class: str, candidates: int) -> TaskFile:
        """Return the file with the device class's search marked as given up after ``candidates`` without a gain."""
        return replace(self, settled=_with(self.settled, device_class, candidates))

    def list_lagging(self, rules: int) -> list[str]:
        """Return the device classes that have searched only under rules older than version ``rules``."""
        return [name for name in self.searched if self.rules.get(name, FIRST_RULES) < rules]

    def with_rules(self, device_class: str, rules: int) -> TaskFile:
        """Return the file with the schedules of rules version ``rules`` marked as measured by the device class."""
        return replace(self, rules=_with(self.rules, device_class, rules))

    def with_exhausted(self, device_class: str) -> TaskFile:
        """Return the file with the device class marked as exhausted: more trials would find nothing new."""
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
    """Return a sort key for records of one class and trace, so that the order of merging does not matter."""
    return (record.seconds, record.threads, record.tvm)
