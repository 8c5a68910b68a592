"""Files that models.yaml names."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath, find_nearest, show_value


def relative_path(root: Path, text: str) -> str:
    """Return the path relative to the project's root, with slashes."""
    given = Path(text)
    return (given.relative_to(root) if given.is_absolute() else given).as_posix()


def check_file(document: Document, root: Path, path: KeyPath, text: str, *, must_exist: bool) -> None:
    """Report a path that is absolute and outside the project, or that names no file."""
    if Path(text).is_absolute() and not Path(text).is_relative_to(root):
        what = f"{show_value(text)} is an absolute path outside the project"
        document.report(path, what, "a path relative to the project's folder")
        return
    name = relative_path(root, text)
    file = root / name
    if not must_exist or file.is_file():
        return
    if file.is_dir():
        document.report(path, f"{name} is a folder", "a file")
        return
    folder = file.parent
    beside = {item.stem: item.name for item in sorted(folder.iterdir()) if item.is_file()} if folder.is_dir() else {}
    near = find_nearest(file.stem, beside)
    nearest = (Path(name).parent / beside[near]).as_posix() if near else None
    document.report(path, f"the file {name} does not exist", "a path relative to the project's folder", nearest)
