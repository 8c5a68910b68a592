"""Faults of records that this clone has found, kept below build/ so that no tracked file changes.

`build/quarantine/<target>/<key>.json` lists the faults of a Task. A fault counts only for the TVM version and the
target with which it was found. Elections leave out traces and files with a fault. This module imports no tvm.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import layout_of_records
from tvmbuild.records.store import DamagedRecordsError, Read, read_task_file, record_path
from tvmbuild.records.task_file import TaskFile

FORMAT = 1


@dataclass(frozen=True)
class Fault:
    """The reason not to use a trace or a whole record file."""

    of: Literal["trace", "file"]
    sha256: str
    """The SHA-256 of the trace's canonical JSON text, or of the file's bytes."""
    reason: str
    tvm: str
    """The TVM version that was installed when the fault was found."""
    target: str
    """The canonical JSON text of the resolved target when the fault was found."""


@functools.cache
def installed_tvm() -> str:
    """Return the version of the installed TVM, or ``none`` if there is no TVM."""
    try:
        return version("apache-tvm")
    except PackageNotFoundError:
        return "none"


def digest(text: str) -> str:
    """Return the SHA-256 of the text of a trace or a workload."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_faults(folder: Path, key: str, target: str) -> tuple[Fault, ...]:
    """Return the Task's faults for the installed TVM and this ``target``. ``folder`` is `records/<target>`.

    A damaged list counts as empty, because its faults will be found again.
    """
    return tuple(fault for fault in _read(folder, key) if fault.tvm == installed_tvm() and fault.target == target)


def change_faults(folder: Path, key: str, change: Callable[[tuple[Fault, ...]], Iterable[Fault]]) -> None:
    """Apply ``change`` to all faults of the Task and publish the result.

    This includes the faults of other TVM versions and targets.
    """
    known = _read(folder, key)
    changed = tuple(dict.fromkeys(change(known)))
    path = _path(folder, key)
    if not changed:
        path.unlink(missing_ok=True)
    elif changed != known:
        faults = sorted((asdict(fault) for fault in changed), key=lambda fault: (fault["tvm"], fault["sha256"]))
        write_json(path, {"format": FORMAT, "faults": faults})


def add_faults(folder: Path, key: str, faults: Iterable[Fault]) -> None:
    """Add the faults to the Task's list."""
    new = tuple(faults)
    if new:
        change_faults(folder, key, lambda known: (*known, *new))


def forget_faults(folder: Path, key: str, target: str) -> None:
    """Remove the faults with this ``target`` from the Task's list."""
    change_faults(folder, key, lambda known: (fault for fault in known if fault.target != target))


def leave_out(task: TaskFile, faults: Iterable[Fault]) -> TaskFile:
    """Return the file without the records whose trace has a fault.

    A file that loses all its records counts as never searched, so that mode `missing` searches it again.
    """
    bad = {fault.sha256 for fault in faults if fault.of == "trace"}
    if not bad:
        return task
    records = tuple(record for record in task.records if digest(record.trace) not in bad)
    if task.records and not records:
        return replace(task, records=(), searched=FrozenMap(), exhausted=(), settled=FrozenMap(), rules=FrozenMap())
    return replace(task, records=records)


def has_file_fault(path: Path, faults: Iterable[Fault]) -> bool:
    """Return whether one of the faults concerns the whole file with its present bytes."""
    bad = {fault.sha256 for fault in faults if fault.of == "file"}
    return bool(bad) and hashlib.sha256(path.read_bytes()).hexdigest() in bad


def keep_aside(folder: Path, key: str, reason: str, target: str) -> Path:
    """Add the Task's whole file to its list of faults, and copy its bytes because a search may overwrite it.

    Return the path of the copy.
    """
    data = record_path(folder, key).read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    copy = _path(folder, key).with_name(f"{key}.{sha256[:12]}.kept")
    if not copy.exists():
        write_bytes(copy, data)
    add_faults(folder, key, [Fault("file", sha256, reason, installed_tvm(), target)])
    return copy


def keep_damaged(folder: Path, keys: Iterable[str], target: str, read: Read = read_task_file) -> dict[str, str]:
    """Quarantine the damaged record files of these Tasks, with a copy of their bytes. Return Task key → damage."""
    reasons = {key: find_damage(record_path(folder, key), read) for key in keys}
    found = {key: reason for key, reason in reasons.items() if reason is not None}
    for key, reason in found.items():
        keep_aside(folder, key, reason, target)
    return found


def find_damage(path: Path, read: Read = read_task_file) -> str | None:
    """Return the damage of a record file as text, or None if the file is sound or absent."""
    try:
        read(path)
    except DamagedRecordsError as error:
        return error.message.removeprefix(f"{path}: ")
    return None


def list_faults(folder: Path, key: str, target: str, read: Read = read_task_file) -> tuple[Fault, ...]:
    """Return the faults of the Task's present record file. Faults of overwritten records do not count."""
    faults, path = read_faults(folder, key, target), record_path(folder, key)
    if not faults or not path.exists():
        return ()
    held = {hashlib.sha256(path.read_bytes()).hexdigest()}
    try:
        task = read(path)
    except DamagedRecordsError:
        task = None
    if task is not None:
        held |= {digest(record.trace) for record in task.records}
    return tuple(fault for fault in faults if fault.sha256 in held)


def _path(folder: Path, key: str) -> Path:
    return layout_of_records(folder).quarantine(folder.name) / f"{key}.json"


def _read(folder: Path, key: str) -> tuple[Fault, ...]:
    try:
        data = json.loads(_path(folder, key).read_text(encoding="utf-8"))
        rows = data["faults"] if data["format"] == FORMAT else []
        return tuple(
            Fault("file" if row["of"] == "file" else "trace", *(str(row[name]) for name in Fault.__match_args__[1:]))
            for row in rows
        )
    except FileNotFoundError:
        return ()
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
