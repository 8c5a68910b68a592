"""Measurements of a search that is not over yet, one line each, on disk before the next one begins.

`build/journal/<target>/<task key>.jsonl` lives from a search's first measurement until its best were timed again. What
it holds is in the record file as well once the batch has ended; of an interrupted batch it is the only trace. Local,
never in git; no tvm here.
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
    """One candidate: ``measured`` is the count of its device class's candidates with it. No record: it failed."""

    device_class: str
    measured: int
    record: Record | None
    target: str = ""
    """Digest of the resolved target: what was measured for other attributes says nothing."""


def digest_target(file: TaskFile) -> str:
    """Return what an Entry says of the target of ``file``."""
    return hashlib.sha256(file.target.encode()).hexdigest()[:16]


def append_entry(path: Path, entry: Entry) -> None:
    """Add a line and wait until the disk has it; TvmbuildError when it cannot be written."""
    line = json.dumps({**asdict(entry), "record": entry.record and asdict(entry.record)}, sort_keys=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # the line before may have been cut short
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise TvmbuildError(
            f"a measurement cannot be written to {path}: {error.strerror}",
            "make room; what was measured before is kept",
        ) from error


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Return what was written; a last line that a power failure cut short, or a damaged one, is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    return tuple(entry for line in lines if (entry := _read_entry(line)) is not None)


def absorb(file: TaskFile, entries: Iterable[Entry]) -> TaskFile:
    """Return the file with the entries for its target in it. What it holds already counts once."""
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
