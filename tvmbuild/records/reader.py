"""A process's cache of record files. A file is read once, and again after another process has written it.

This module imports no tvm.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.files import identify, is_racy
from tvmbuild.records.store import DamagedRecordsError, read_task_file, write_task_file
from tvmbuild.records.task_file import TaskFile


@dataclass(frozen=True)
class _Kept:
    """A cached file: its contents, or the error that reports its damage."""

    identity: tuple[int, ...]
    file: TaskFile | None
    damage: DamagedRecordsError | None = None


class RecordReader:
    """A reader and writer of record files that caches their contents."""

    def __init__(self) -> None:
        self._kept: dict[Path, _Kept] = {}

    def read(self, path: Path) -> TaskFile | None:
        """Return the file's contents, from the cache if they are in it. Raises the same errors as `read_task_file`."""
        try:
            identity = identify(path)
        except OSError:
            return read_task_file(path)
        kept = self._kept.get(path)
        if kept is None or kept.identity != identity:
            kept = _read(path, identity)
            if not is_racy(identity):
                self._kept[path] = kept
        if kept.damage is not None:
            raise kept.damage
        return kept.file

    def write(self, path: Path, file: TaskFile) -> None:
        """Publish the file and cache its contents. It is read again only if another process writes it later."""
        published = write_task_file(path, file)
        with suppress(OSError):  # another process has removed it
            self._kept.pop(path, None)
            identity = identify(path)
            if identity[:3] == published:
                self._kept[path] = _Kept(identity, file)


def _read(path: Path, identity: tuple[int, ...]) -> _Kept:
    try:
        return _Kept(identity, read_task_file(path))
    except DamagedRecordsError as error:
        return _Kept(identity, None, error)
