"""The project's pages: all Markdown except built or installed files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def list_pages(root: Path) -> Iterator[Path]:
    """Yield the pages in order."""
    for path in sorted(root.rglob("*.md")):
        folders = path.relative_to(root).parts[:-1]
        if not any(folder in {"build", "site"} or folder.startswith(".") for folder in folders):
            yield path
