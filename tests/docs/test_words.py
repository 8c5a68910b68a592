"""Docstrings open with a word that says who does what: docs/contributing.md, "How we write"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

OPENING = re.compile(
    r"(?:What|Of|That|Those|Such|So|Whose|Which|Where|How|Who)\b"
    r"|(?:Return|Say|Tell|Yield|Give|Print) (?:what|of|that which|those)\b"
    r"|(?:Say|Tell) whether\b"
)
"""The first words of a docstring that leaves its subject to the reader."""
LEFT = ("tvmbuild/compiler", "tests/compiler")
"""The folders that are still to be rewritten."""
FOLDERS = ("tvmbuild", "tests", "benchmarks", "examples", "docs")


def list_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of each docstring, those of fields and constants among them."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child.lineno, child.value.value.strip().partition("\n")[0]


def test_docstrings_open_with_a_subject_or_a_verb(project_root: Path) -> None:
    refused = []
    for folder in FOLDERS:
        for path in sorted((project_root / folder).rglob("*.py")):
            name = path.relative_to(project_root).as_posix()
            if name.startswith(LEFT) or "/build/" in name:
                continue
            for line, text in list_docstrings(path.read_text(encoding="utf-8")):
                if OPENING.match(text):
                    refused.append(f"{name}:{line}: {text}")
    assert not refused, "\n".join(refused)


def test_openings_are_found() -> None:
    source = '"""What a module is."""\nX = 1\n"""Return what it is."""\ndef f():\n    """Return whether it is so."""\n'
    assert [bool(OPENING.match(text)) for _, text in list_docstrings(source)] == [True, True, False]
