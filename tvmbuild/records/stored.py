"""All records of one target on disk, including damaged and quarantined ones. This module imports no tvm."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.records.folders import list_record_files
from tvmbuild.records.quarantine import Fault, find_damage, has_file_fault, read_faults
from tvmbuild.records.store import read_task_file
from tvmbuild.records.task_file import TaskFile


@dataclass(frozen=True)
class StoredTask:
    """One record file. If it is damaged, ``file`` is None and ``faults`` gives the damage."""

    path: Path
    file: TaskFile | None
    faults: tuple[str, ...]
    """The reasons not to use the whole file; empty if it is used."""
    bad: tuple[Fault, ...] = ()
    """The faults of traces that the file holds or held."""


def read_stored(folder: Path, keys: Container[str] | None = None) -> list[StoredTask]:
    """Return the record files of the target, sorted by key. If ``keys`` is given, return only their files.

    ``folder`` is `records/<target>`.
    """
    paths = [path for path in list_record_files(folder) if path.parent == folder]
    return [_read(path) for path in paths if keys is None or path.stem in keys]


def _read(path: Path) -> StoredTask:
    damage = find_damage(path)
    file = None if damage else read_task_file(path)
    if file is None:
        return StoredTask(path, None, (damage or "it was lost",))
    faults = read_faults(path.parent, path.stem, file.target)
    whole = tuple(fault.reason for fault in faults if fault.of == "file") if has_file_fault(path, faults) else ()
    return StoredTask(path, file, whole, tuple(fault for fault in faults if fault.of == "trace"))
