"""`build/history.jsonl`: one line a benchmark, the newest last. Imports no slow module, because the report uses it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.files import canonical_json, sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.benchmarking.results import Result, read_result

_END_OF_TIME = 1 << 40
"""The largest time in seconds that calendars can still show."""


@dataclass(frozen=True)
class Entry:
    """One benchmark, its time, and the schedules of the package."""

    time: int
    """Seconds since the epoch."""
    result: Result
    schedules: FrozenMap[str, str] | None
    """Task key → digest of its winning trace, sorted. None: not known."""


@dataclass(frozen=True)
class History:
    """The readable lines, in their order, and the number of unreadable ones."""

    entries: tuple[Entry, ...]
    damaged: int = 0


def append_entry(path: Path, entry: Entry) -> None:
    """Add the line with one write, so that lines of several processes do not mix."""
    schedules = entry.schedules
    line = canonical_json({**entry.result.to_json(), "time": entry.time, "schedules": schedules}) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, (f"\n{line}" if torn else line).encode())
    finally:
        os.close(handle)


def read_history(path: Path) -> History:
    """Return the contents of the file, empty if it does not exist. Raises OSError if it cannot be read.

    A torn last line is ignored. Other unreadable lines are counted.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return History(())
    lines = data.split(b"\n")
    read = [read_entry(line) for line in lines[:-1] if line.strip()]
    entries = tuple(entry for entry in read if entry is not None)
    return History(entries, len(read) - len(entries))


def read_entry(line: bytes, when: int | None = None) -> Entry | None:
    """Return the entry of a line, or with ``when`` of a result.json of that time. None: the text is neither."""
    try:
        value = json.loads(line)
        result = read_result(value)
        if result is None:
            return None
        seconds = int(value["time"]) if when is None else when
        if not 0 <= seconds < _END_OF_TIME:
            return None
        return Entry(seconds, result, _read_schedules(value.get("schedules")))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _read_schedules(value: Mapping[str, Any] | None) -> FrozenMap[str, str] | None:
    return None if value is None else FrozenMap(sorted((str(key), str(digest)) for key, digest in value.items()))


def make_entry(result: Result, schedule: Path, used: str | None) -> Entry:
    """Return the entry of a benchmark that was made just now.

    ``schedule`` is the cell's schedule.json. It counts only if its SHA-256 is ``used``, the one of the schedule in the
    package.
    """
    return Entry(int(time.time()), result, digest_schedules(schedule) if _has_digest(schedule, used) else None)


def _has_digest(path: Path, sha256: str | None) -> bool:
    try:
        return sha256 is not None and sha256_file(path) == sha256
    except OSError:
        return False


def digest_schedules(schedule: Path) -> FrozenMap[str, str]:
    """Return Task key → digest of the trace of schedule.json."""
    winners = json.loads(schedule.read_text(encoding="utf-8"))["schedule"]
    return FrozenMap(sorted((key, _digest(winner["trace"])) for key, winner in winners.items()))


def _digest(trace: object) -> str:
    return hashlib.sha256(canonical_json(trace).encode()).hexdigest()[:12]
