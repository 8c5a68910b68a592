"""The files that models.yaml names."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath, show_value


def relative_path(root: Path, text: str) -> str:
    """Return the path relative to the project's root, with slashes."""
    given = Path(text)
    return (given.relative_to(root) if given.is_absolute() else given).as_posix()


def check_file(document: Document, root: Path, path: KeyPath, text: str, *, must_exist: bool) -> None:
    """Report a path that is absolute and outside the project or, if ``must_exist``, that is not a file."""
    if Path(text).is_absolute() and not Path(text).is_relative_to(root):
        what = f"{show_value(text)} is an absolute path outside the project"
        document.report(path, what, "a path relative to the project's folder")
        return
    name = relative_path(root, text)
    file = root / name
    if not must_exist or os.path.isfile(file):  # noqa: PTH113 - answers for impossible names too
        return
    if os.path.isdir(file):  # noqa: PTH112
        document.report(path, f"{name} is a folder", "a file")
        return
    beside = {item.stem: item.name for item in _list_files(file.parent)}
    near = find_nearest(file.stem, beside)
    nearest = (Path(name).parent / beside[near]).as_posix() if near else None
    document.report(path, f"the file {name} does not exist", "a path relative to the project's folder", nearest)


def list_pictures(root: Path, pattern: str) -> list[str]:
    """Return the files that the glob matches, sorted. Their paths are relative to the project's root."""
    found = (Path(name) for name in glob.glob(str(root / pattern), recursive=True))  # noqa: PTH207 - that refuses absolute ones
    files = sorted(path for path in found if path.is_file())
    return [Path(os.path.relpath(path, root)).as_posix() for path in files]


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(item for item in folder.iterdir() if item.is_file())
    except (OSError, ValueError):  # absent, unreadable, or no possible name
        return []
