"""The benchmark history `build/history.jsonl`: one line per benchmark, the newest last.

This module imports no slow module, because the report uses it.
"""

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
"""An entry with a later time, in seconds since the epoch, is invalid: calendar functions cannot show it."""


@dataclass(frozen=True)
class Entry:
    """One benchmark: the time when it was made, its result, and the schedules of its package."""

    time: int
    """The time when the benchmark ended, in seconds since the epoch."""
    result: Result
    schedules: FrozenMap[str, str] | None
    """Task key → digest of the Task's winning trace, sorted. None if the schedules are unknown."""


@dataclass(frozen=True)
class History:
    """The entries of all readable lines, in file order, and the number of unreadable lines."""

    entries: tuple[Entry, ...]
    damaged: int = 0


def append_entry(path: Path, entry: Entry) -> None:
    """Append the entry to the history in one write, so that several processes may append at once."""
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
    """Return the history in the file, or an empty one if the file does not exist. Raises OSError if reading fails.

    An incomplete last line is ignored. All other unreadable lines are counted.
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
    """Parse a line of the history, or None if the line is invalid.

    With ``when``, a time in seconds since the epoch, the text is the content of a result.json from that time.
    """
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
    """Return a history entry for a benchmark that ended just now.

    ``schedule`` is the cell's schedule.json, and ``used`` is the SHA-256 of the schedule that the package was built
    from. If the file has another digest or does not exist, the entry has no schedules.
    """
    return Entry(int(time.time()), result, digest_schedules(schedule) if _has_digest(schedule, used) else None)


def _has_digest(path: Path, sha256: str | None) -> bool:
    try:
        return sha256 is not None and sha256_file(path) == sha256
    except OSError:
        return False


def digest_schedules(schedule: Path) -> FrozenMap[str, str]:
    """Return a map from each Task key in a schedule.json to the digest of the Task's trace."""
    winners = json.loads(schedule.read_text(encoding="utf-8"))["schedule"]
    return FrozenMap(sorted((key, _digest(winner["trace"])) for key, winner in winners.items()))


def _digest(trace: object) -> str:
    return hashlib.sha256(canonical_json(trace).encode()).hexdigest()[:12]
