"""Functions that several `tvmbuild records` actions share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.layout import MODELS_YAML, Layout
from tvmbuild.config import load_project
from tvmbuild.engine.project_lock import hold_project_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.task_file import ResolvedTarget


def list_targets(layout: Layout, patterns: Sequence[str]) -> list[str]:
    """Return the targets, sorted, that have a folder of records and match one of the globs, or all without globs.

    Raises TvmbuildError if there are no records, or for a glob that matches no target.
    """
    folder = layout.records("")
    known = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not known:
        raise TvmbuildError(f"there are no records in {folder}", "`tvmbuild tune` makes them")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            near = suggest(find_nearest(pattern, known))
            raise TvmbuildError(f"no target with records matches {pattern!r}", f"{near}There are {_words(known)}.")
    return [name for name in known if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)


def hold_records(path: Path) -> None:
    """Hold the lock of the project around ``path``, if any, until this process ends, so that doit writes no records."""
    start = path.resolve()
    for folder in (start, *start.parents):
        if (folder / MODELS_YAML).is_file():
            hold_project_lock(Layout(folder).build)
            return


def plain(text: str) -> str:
    """Return the text of a record file with `?` for unprintable characters, which could control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def show_time(seconds: float) -> str:
    """Return a time with three digits: ``31.2 us``, ``1.04 ms``, ``12.5 min``."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds / 1e-6)} us"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def find_target(root: Path, name: str) -> ResolvedTarget:
    """Return the resolved target of that name in targets.yaml.

    Raises TvmbuildError if there is none, or if no lock resolves it yet.
    """
    targets = {target.name: target for target in load_project(root).targets}
    if name not in targets:
        near = suggest(find_nearest(name, targets))
        raise TvmbuildError(f"targets.yaml has no target {name}", f"{near}There are {_words(targets)}.")
    target = targets[name]
    if target.unresolved is not None:
        raise TvmbuildError(f"the target {name} is not resolved: {target.unresolved}")
    return ResolvedTarget(target.kind, target.attributes, target.host)
