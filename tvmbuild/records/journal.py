"""The journal of an unfinished search: one line for each measurement, on disk before the next one begins.

`build/journal/<target>/<task key>.jsonl` exists from a search's first measurement until its best candidates were timed
again. When a batch has ended, the record file holds its measurements too. An interrupted batch exists only here. The
journal stays on this machine and is not in git. This module imports no tvm.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tvmbuild.errors import TvmbuildError
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.records.trace_form import check_trace


@dataclass(frozen=True)
class Entry:
    """One measured candidate. ``record`` is None if it failed.

    ``measured`` is the number of candidates that its device class has measured so far, including this one.
    """

    device_class: str
    measured: int
    record: Record | None
    target: str = ""
    """The digest of the resolved target. Measurements for other target attributes do not count."""


def digest_target(file: TaskFile) -> str:
    """Return the digest of the file's target, as in an Entry."""
    return hashlib.sha256(file.target.encode()).hexdigest()[:16]


def append_entry(path: Path, entry: Entry) -> None:
    """Append the entry to the journal and wait until it is on disk. Raises TvmbuildError if it cannot be written."""
    line = json.dumps({**asdict(entry), "record": entry.record and asdict(entry.record)}, sort_keys=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # a power failure may have cut the line before short
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise TvmbuildError(
            f"a measurement cannot be written to {path}: {error.strerror}",
            "make room; what was measured before is kept",
        ) from error


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Return the entries of the journal, without damaged lines and lines that a power failure cut short.

    Without a journal, return an empty tuple.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    return tuple(entry for line in lines if (entry := _read_entry(line)) is not None)


def absorb(file: TaskFile, entries: Iterable[Entry]) -> TaskFile:
    """Return the file with the results of the entries for its target. Entries that it already holds count once."""
    for entry in (each for each in entries if each.target == digest_target(file)):
        more = max(0, entry.measured - file.searched_on(entry.device_class))
        records = () if entry.record is None else (entry.record,)
        file = file.with_results(entry.device_class, records, more)
    return file


def _read_entry(line: str) -> Entry | None:
    try:
        data = json.loads(line)
        record = None if data["record"] is None else Record(**data["record"])
        if record is not None:
            check_trace(json.loads(record.trace))
        return Entry(str(data["device_class"]), int(data["measured"]), record, str(data["target"]))
    except (ValueError, KeyError, TypeError):
        return None
