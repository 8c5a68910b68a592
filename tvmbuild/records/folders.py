"""Folders of record files, and the merge of one folder or file into another, entirely or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.layout import MODELS_YAML
from tvmbuild.base.wording import count
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.merge import merge_files
from tvmbuild.records.store import KEY, read_task_file, write_task_file
from tvmbuild.records.task_file import TaskFile, code_of

EXPECTED = "a folder with KEY.json (16 hex digits), one with TARGET/KEY.json, or a project that has such `records`"


@dataclass(frozen=True)
class Change:
    """A record file that a merge would write, before and after the merge."""

    path: Path
    before: TaskFile | None
    after: TaskFile

    @property
    def won(self) -> int:
        """The number of records that are new, or faster than before."""
        return len(set(self.after.records) - set(self.before.records if self.before else ()))


@dataclass(frozen=True)
class MergePlan:
    """The changes that a merge would make."""

    changes: tuple[Change, ...] = ()
    others: tuple[Path, ...] = ()
    """The files that are skipped because they were made for other target attributes."""


def find_records(folder: Path) -> Path:
    """Return the folder of records: `records` if ``folder`` is a project's root, otherwise ``folder`` itself."""
    return folder / "records" if (folder / MODELS_YAML).is_file() else folder


def list_record_files(folder: Path) -> list[Path]:
    """Return the record files in ``folder`` or, if there are none, in its subfolders (one for each target), sorted.

    Locks, measured choices and deeper files are not record files.
    """
    flat = _list_keyed(folder.glob("*.json"))
    return flat or _list_keyed(path for path in folder.glob("*/*.json") if path.parent.name != "choices")


def _list_keyed(paths: Iterable[Path]) -> list[Path]:
    return sorted(path for path in paths if KEY.fullmatch(path.stem) and path.is_file())


def plan_merge(into: Path, other: Path, *, target: str | None = None, skip_others: bool = False) -> MergePlan:
    """Return the changes that merging ``other`` into ``into`` would make. Nothing is written.

    Both paths must be folders of all targets, folders of one target, or files. Raises TvmbuildError if a path is
    absent, if they are of different kinds, or if a file is damaged. It also raises TvmbuildError, which names all files
    at fault, if files were made for other target attributes than the file in ``into`` or than ``target``. With
    ``skip_others`` these files are skipped.
    """
    for path in (into, other):
        if not path.exists():
            raise TvmbuildError(f"there is no {path}", "name two folders of records, or two record files")
    if into.is_dir() != other.is_dir():
        raise TvmbuildError(
            f"{into} and {other} are not of the same kind", "name two folders of records, or two record files"
        )
    pairs = _pair_folders(find_records(into), find_records(other)) if other.is_dir() else [(into, other)]
    changes: list[Change] = []
    others: dict[Path, str] = {}
    for path, source in pairs:
        theirs, ours = read_task_file(source), read_task_file(path)
        if theirs is None:
            continue  # it was removed meanwhile
        known = ours.target if ours and ours.key == theirs.key else None
        unequal = [wanted for wanted in (target, known) if wanted is not None and code_of(wanted) != theirs.code]
        if unequal:
            others[source] = f"{source} ({theirs.name}): {theirs.target}, not {unequal[0]}"
            continue
        merged = merge_files(ours, theirs) if ours else theirs
        if merged != ours:
            changes.append(Change(path, ours, merged))
    if others and not skip_others:
        raise TvmbuildError(
            f"{len(others)} of {count(len(pairs), 'file')} made for other target attributes:\n  "
            + "\n  ".join(others.values()),
            "times for different attributes are not compared; --skip-others goes on without these files",
        )
    return MergePlan(tuple(changes), tuple(others))


def _pair_folders(into: Path, other: Path) -> list[tuple[Path, Path]]:
    sources = list_record_files(other)
    if not sources:
        raise TvmbuildError(f"{other} holds no record file", f"expected is {EXPECTED}")
    of_one = sources[0].parent == other
    if not of_one and into.parent.name == "records":
        raise TvmbuildError(
            f"{other} holds targets, {into} is one", f"merge {into.parent} and {other}, or two folders of one target"
        )
    if of_one and into.name == "records":
        raise TvmbuildError(f"{other} is one target, {into} holds targets", f"name the target: {into}/TARGET")
    return [(into / path.relative_to(other), path) for path in sources]


def apply_changes(changes: Sequence[Change]) -> None:
    """Write the merged record files."""
    for change in changes:
        write_task_file(change.path, change.after)
