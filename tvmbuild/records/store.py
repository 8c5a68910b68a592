"""The record files: `records/<target>/<task key>.json`, pretty, sorted, mergeable by eye.

One file holds the workload (TVM's IRModule as JSON), what the target's attributes resolved to, how many
candidates each device class has measured and what time that took, and per device class the best distinct traces.
Plain JSON: nothing here imports tvm, and loading a file executes nothing.
"""

from __future__ import annotations

import functools
import json
import math
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tvmbuild.errors import TvmbuildError
from tvmbuild.files import canonical_json, write_text
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.records.conflicts import check_conflict
from tvmbuild.records.field_form import check_count, check_spent, check_target, check_text
from tvmbuild.records.file_text import format_task_file
from tvmbuild.records.trace_form import check_trace
from tvmbuild.specs import Attributes

FORMAT = 1
KEY = re.compile(r"[0-9a-f]{16}")
"""What a Task's key looks like; with `.json` it is its file's name, so nothing else may become a path."""
BEST = 5
"""Traces kept for each device class."""


N = TypeVar("N", int, float)


class DamagedRecordsError(TvmbuildError):
    """A record file whose contents are none; it counts as absent."""


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True)
class ResolvedTarget:
    """What code generation sees of a target; a record applies only where it is equal."""

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
    spent: FrozenMap[str, float] = FrozenMap()
    """Device class → wall seconds of searching, building and timing so far, sorted; an absent class: unknown."""

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
        """Say whether some device class gave up after that many candidates, or more, that brought nothing."""
        return patience is not None and any(count >= patience for count in self.settled.values())

    def with_settled(self, device_class: str, candidates: int) -> TaskFile:
        """Return the file with that device class's search given up after so many candidates that brought nothing."""
        return replace(self, settled=_with(self.settled, device_class, candidates))

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


def record_path(folder: Path, key: str) -> Path:
    """Return the Task's file below the target's records folder."""
    return folder / f"{key}.json"


def read_task_file(path: Path) -> TaskFile | None:
    """Return the file's contents, None when there is no such file; DamagedRecordsError when they are damaged.

    A file that cannot be read, or that a newer tvmbuild wrote, is a TvmbuildError of another class. A file that many
    cells share is parsed once, as long as it does not change.
    """
    try:
        status = path.stat()
        changed = max(status.st_mtime_ns, status.st_ctime_ns)
        if time.time_ns() - changed < _RACY_NS:  # two changes within a tick of the clock would look like one
            return _read(path)
        return _read_once(path, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TvmbuildError(f"{path}: {error.strerror}", "a record must be a file that this user can read") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedRecordsError(
            f"{path}: damaged record file ({type(error).__name__}: {error})",
            "restore it from git, or delete it and the Task is tuned again",
        ) from error


_RACY_NS = 2_000_000_000


@functools.lru_cache(maxsize=1024)
def _read_once(path: Path, identity: tuple[int, ...]) -> TaskFile:  # noqa: ARG001 - the identity is the cache's key
    return _read(path)


def _read(path: Path) -> TaskFile:
    text = path.read_text(encoding="utf-8")
    try:
        data = json.loads(text)
    except ValueError:
        check_conflict(
            text,
            path,
            "run `tvmbuild records merge-driver --install`, then `git checkout --merge -- "
            f"{path}`: that unites what both sides have measured",
        )
        raise
    if not isinstance(data["format"], int) or data["format"] < FORMAT:
        raise ValueError("format is no number of a format")
    if data["format"] > FORMAT:
        raise TvmbuildError(
            f"{path}: record format {data['format']}, this tvmbuild reads {FORMAT}",
            "update tvmbuild, or restore the file from git",
        )
    task = _task_file(data)
    if KEY.fullmatch(path.stem) and path.suffix == ".json" and task.key != path.stem:
        raise ValueError(f"it holds the Task {task.key}")
    return task


def _task_file(data: dict[str, Any]) -> TaskFile:
    check_target(data["target"])
    if not KEY.fullmatch(check_text(data, "key")):
        raise ValueError(f"the key {data['key']!r} is not 16 hex digits")
    task = TaskFile(
        key=data["key"],
        name=check_text(data, "name"),
        workload=check_text(data, "workload"),
        target=canonical_json(data["target"]),
        tvm=check_text(data, "tvm"),
        records=keep_best(tuple(_record(item) for item in data["records"])),
        searched=FrozenMap(sorted((str(k), check_count(v)) for k, v in data["searched"].items())),
        exhausted=tuple(sorted({str(item) for item in data["exhausted"]})),
        settled=FrozenMap(sorted((str(k), check_count(v)) for k, v in data.get("settled", {}).items())),
        spent=FrozenMap(sorted((str(k), check_spent(v)) for k, v in data.get("spent", {}).items())),
    )
    classes = (name for counts in (task.searched, task.settled, task.spent) for name in counts)
    for text in (task.key, task.name, task.workload, task.target, task.tvm, *task.exhausted, *classes):
        text.encode()  # a lone surrogate is valid JSON and no valid text
    return task


def _record(data: dict[str, Any]) -> Record:
    check_trace(data["trace"])
    seconds = float(data["seconds"])
    if not 0 < seconds < math.inf:
        raise ValueError(f"a record's time is {seconds} seconds")
    record = Record(
        canonical_json(data["trace"]),
        seconds,
        check_text(data, "measured_on"),
        check_count(data["threads"]),
        check_text(data, "tvm"),
    )
    for text in (record.trace, record.measured_on, record.tvm):
        text.encode()
    return record


def write_task_file(path: Path, task: TaskFile) -> None:
    """Publish the file: keys sorted, one line a trace instruction, so that a git diff can be read."""
    write_text(path, format_task_file(task, FORMAT))
