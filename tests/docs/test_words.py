"""Docstrings and sentences open with a word that says who does what: docs/contributing.md, "How we write"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pages import list_pages

OPENING = re.compile(
    r"(?:What|Of|That|Those|Such|So|Whose|Which|Where|How|Who)\b"
    r"|(?:Return|Say|Tell|Yield|Give|Print) (?:what|of|that which|those)\b"
    r"|(?:Say|Tell) whether\b"
)
"""The first words of a docstring that leaves its subject to the reader."""
FOLDERS = ("tvmbuild", "tests", "benchmarks", "examples", "docs")
SENTENCE = re.compile(
    r"(?:What (?:is|was|are|were)|Of (?:which|what|them|these|those)|That (?:there|which)|Those (?:that|which|of))\b"
)
"""The first words of a sentence whose subject a reader must look for; a question may open so."""
PAGES_LEFT = re.compile(r"docs/explanation/compiler\.md")
"""The page that is made of docstrings."""


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
            if "/build/" in name:
                continue
            for line, text in list_docstrings(path.read_text(encoding="utf-8")):
                if OPENING.match(text):
                    refused.append(f"{name}:{line}: {text}")
    assert not refused, "\n".join(refused)


def test_openings_are_found() -> None:
    source = '"""What a module is."""\nX = 1\n"""Return what it is."""\ndef f():\n    """Return whether it is so."""\n'
    assert [bool(OPENING.match(text)) for _, text in list_docstrings(source)] == [True, True, False]


def list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page's prose: no headings, tables or blocks."""
    prose = re.sub(r"^ *```.*?^ *```|^ *[#|<].*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in re.split(r"\n(?=\s*(?:[-*>]|\d+\.) )|\n\s*\n|(?<=[.?!:])\s+", prose):
        yield re.sub(r"^\s*(?:(?:[-*>]|\d+\.) )?", "", line).strip()


def test_sentences_open_with_a_subject(project_root: Path) -> None:
    pages = {path.relative_to(project_root).as_posix(): path for path in list_pages(project_root)}
    refused = [
        f"{name}: {sentence[:80]}"
        for name, path in pages.items()
        if name.startswith(("docs/", "examples/", "README")) and not PAGES_LEFT.fullmatch(name)
        for sentence in list_sentences(path.read_text(encoding="utf-8"))
        if SENTENCE.match(sentence) and not sentence.endswith("?")
    ]
    assert not refused, "\n".join(refused)


def test_sentences_are_found() -> None:
    page = "# What is new\n\nA line.\nWhat is it?\n- What is left stays. Of these\n  none moves.\n\n| What is | a |\n"
    assert [each for each in list_sentences(page) if SENTENCE.match(each)] == [
        "What is it?",
        "What is left stays.",
        "Of these\n  none moves.",
    ]
