"""The Markdown has one sentence a line, in lines that a terminal and a diff show in full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pages import list_pages

COLUMNS = 120
_FENCE = re.compile(r"\s*(```+|~~~+)")
_LINK = r"(?:https?://\S+|\[[^\]]*\]\(\S+\))"
_EXEMPT = re.compile(rf"\s*(?:\||(?:[-*+]|\d+\.)?\s*{_LINK}[.,;:]?$)")


def _find_long_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield number and columns of the lines of prose that are too long."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and line.strip() == mark[1])):
            fence = "" if fence else mark[1]
        elif not fence and len(line) > COLUMNS and not _EXEMPT.match(line):
            yield number, len(line)


def test_no_line_of_prose_is_too_long(project_root: Path) -> None:
    pages = {path.relative_to(project_root).as_posix(): path for path in list_pages(project_root)}
    assert {"README.md", "docs/explanation/architecture.md"} <= pages.keys()
    long = [
        f"{name}:{number}: {columns} columns"
        for name, path in pages.items()
        for number, columns in _find_long_lines(path.read_text(encoding="utf-8"))
    ]
    assert not long, "\n".join(long)


def test_what_cannot_be_broken_may_be_long() -> None:
    long = "word " * 30
    link = f"[text](https://example.org/{'x' * 120})"
    assert list(_find_long_lines(f"# Title\n\n{long}\n")) == [(3, len(long))]
    assert list(_find_long_lines(f"````\n{long}\n```\n{long}\n````\n| {long} |\n- {link}.\n{link}\n")) == []
    assert list(_find_long_lines(f"```sh\nls\n```\n{link} {long}\n")) == [(4, len(link) + 1 + len(long))]
