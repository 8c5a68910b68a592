"""Folders of record files: list them, and merge one folder or file into another as a whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.errors import TvmbuildError
from tvmbuild.records.merge import merge_files
from tvmbuild.records.store import TaskFile, read_task_file, write_task_file

_NAME = re.compile(r"[0-9a-f]{16}\.json")


@dataclass(frozen=True)
class Change:
    """A record file that a merge would write."""

    path: Path
    before: TaskFile | None
    after: TaskFile

    @property
    def won(self) -> int:
        """How many of the records are new, or faster than before."""
        return len(set(self.after.records) - set(self.before.records if self.before else ()))


def list_record_files(folder: Path) -> list[Path]:
    """Return every record file in ``folder`` and below it, sorted; locks and measured choices are none."""
    return sorted(path for path in folder.rglob("*.json") if _NAME.fullmatch(path.name) and path.is_file())


def plan_merge(into: Path, other: Path) -> list[Change]:
    """Return what merging ``other`` into ``into`` changes; nothing is written.

    Both are folders, `records` or `records/<target>` alike, or both are files. TvmbuildError when a file is damaged or
    two files cannot be one.
    """
    for path in (into, other):
        if not path.exists():
            raise TvmbuildError(f"there is no {path}", "name two folders of records, or two record files")
    if into.is_dir() != other.is_dir():
        raise TvmbuildError(f"{into} and {other} are not of a kind", "name two folders of records, or two record files")
    if not other.is_dir():
        return _compare([(into, other)])
    sources = list_record_files(other)
    if not sources:
        raise TvmbuildError(f"{other} holds no record file", "a record file is called by its Task's key: KEY.json")
    depths = {len(path.relative_to(other).parts) for path in sources}
    if depths == {2} and into.parent.name == "records":
        raise TvmbuildError(
            f"{other} holds targets, {into} is one", f"merge {into.parent} and {other}, or two folders of one target"
        )
    return _compare([(into / path.relative_to(other), path) for path in sources])


def apply_changes(changes: Sequence[Change]) -> None:
    """Write them."""
    for change in changes:
        write_task_file(change.path, change.after)


def _compare(pairs: Sequence[tuple[Path, Path]]) -> list[Change]:
    changes = []
    for path, source in pairs:
        theirs, ours = read_task_file(source), read_task_file(path)
        if theirs is None:
            continue  # it went while we looked
        merged = merge_files(ours, theirs) if ours else theirs
        if merged != ours:
            changes.append(Change(path, ours, merged))
    return changes
