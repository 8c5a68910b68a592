"""Docstrings, comments and pages say who does what, in plain words: docs/contributing.md, "How we write"."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pages import list_pages

OPENING = re.compile(
    r"(?:What|Of|That|Those|Such|So|Whose|Which|Where|Whether|How|Who)\b"
    r"|(?:Return|Say|Tell|Yield|Give|Print)s? (?:what|of|that which|those)\b"
    r"|(?:Say|Tell)s? whether\b"
)
"""The first words of a docstring that leaves its subject to the reader."""
FOLDERS = ("tvmbuild", "tests", "benchmarks", "examples", "docs")
SENTENCE = re.compile(
    r"(?:What (?:is|was|are|were)|Of (?:which|what|them|these|those)|That (?:there|which)|Those (?:that|which|of))\b"
)
"""The first words of a sentence whose subject a reader must look for; a question may open so."""
HEADING = re.compile(r"(?:Of|That|Those|Such|Whose|Whether)\b")
"""The first words of a heading that leaves its subject to the reader."""
REFUSED = re.compile(
    r"\b[Oo]f (?:which|what)\b"
    r"|(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|\w+er\b)[a-z]"
    r"|(?<!as )\bas well\b(?! as\b)"
    r"|\b[Tt]hat there (?:is|are)\b"
    r"|\b(?:be|is|are) such\b"
    r"|\b[Mm]end(?:s|ed|ing)?\b|\banew\b|\bone behind the other\b"
    r"|\bof (?:yours|ours|theirs)\b|\bof the user's[.,;:]"
    r"|\balone(?=[.,;:)]|$)"
)
"""Phrases that a reader has to decode. docs/contributing.md has plainer ones."""
QUOTED = re.compile(r"``.+?``|`[^`]*`|\"[^\"\n]*\"")
"""Code, and words that a text speaks about."""


def list_docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, those of fields and constants among them."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child.lineno, child.value.value.strip()


@cache
def list_modules(root: Path) -> tuple[tuple[str, Path], ...]:
    """Return the project's Python files by their names."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    names = [(path.relative_to(root).as_posix(), path) for path in files]
    return tuple((name, path) for name, path in names if "/build/" not in name)


@cache
def read_modules(root: Path) -> tuple[tuple[str, int, str], ...]:
    """Return name, line and text of each docstring in the project's Python files."""
    return tuple(
        (name, line, text)
        for name, path in list_modules(root)
        for line, text in list_docstrings(path.read_text(encoding="utf-8"))
    )


def test_docstrings_open_with_a_subject_or_a_verb(project_root: Path) -> None:
    refused = [f"{name}:{line}: {text}" for name, line, text in read_modules(project_root) if OPENING.match(text)]
    assert not refused, "\n".join(refused)


def find_refused(text: str) -> str | None:
    """Return the first refused phrase of a text, outside of code and quotations."""
    found = REFUSED.search(" ".join(QUOTED.sub("", text).split()))
    return found and found[0]


def test_docstrings_have_none_of_the_refused_phrases(project_root: Path) -> None:
    refused = [
        f"{name}:{line}: {phrase}"
        for name, line, text in read_modules(project_root)
        if (phrase := find_refused(text)) is not None
    ]
    assert not refused, "\n".join(refused)


def test_pages_have_none_of_the_refused_phrases(project_root: Path) -> None:
    refused = [
        f"{name}: {phrase}: {sentence[:80]}"
        for name, path in list_prose(project_root)
        for sentence in list_sentences(path.read_text(encoding="utf-8"))
        if (phrase := find_refused(sentence)) is not None
    ]
    assert not refused, "\n".join(refused)


def test_phrases_are_found() -> None:
    bad = ["It is no tensor.", "Rows, each of which is read.", "It mends it.", "A rule of ours.", "It is such."]
    bad += ["With the driver alone: then", "It is computed alone"]
    good = ["There is no tensor.", "It is no longer.", "No row is no slower.", 'Never "of which".', "`mend`"]
    good += ["The outputs alone\n    are larger."]
    assert all(map(find_refused, bad))
    assert not any(map(find_refused, good))


def test_openings_are_found() -> None:
    source = '"""What a module is."""\nX = 1\n"""Returns what it is."""\ndef f():\n    """Return whether it is so."""\n'
    assert [bool(OPENING.match(text)) for _, text in list_docstrings(source)] == [True, True, False]
    assert all(map(OPENING.match, ("Whether it is so.", "Such a row.", "Tells whether it is so.")))


def list_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment; the lines of a paragraph are one comment."""
    tokens = [
        token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.COMMENT
    ]
    found: list[tuple[int, str]] = []
    end = 0
    for token in tokens:
        line, text = token.start[0], token.string.lstrip("#:! ").strip()
        if found and line == end + 1 and not token.line[: token.start[1]].strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
        else:
            found.append((line, text))
        end = line
    yield from found


def test_comments_have_none_of_the_refused_phrases(project_root: Path) -> None:
    refused = [
        f"{name}:{line}: {phrase}"
        for name, path in list_modules(project_root)
        for line, text in list_comments(path.read_text(encoding="utf-8"))
        if (phrase := find_refused(text)) is not None
    ]
    assert not refused, "\n".join(refused)


def test_comments_are_found() -> None:
    source = "x = 1  # the first of\n# which it is\n\n# another\ny = '# none'\n"
    assert list(list_comments(source)) == [(1, "the first of which it is"), (4, "another")]


def list_headings(text: str) -> list[str]:
    """Return the headings of a page."""
    return re.findall(r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)


def test_headings_have_a_subject_and_none_of_the_refused_phrases(project_root: Path) -> None:
    refused = [
        f"{name}: {heading}"
        for name, path in list_prose(project_root)
        for heading in list_headings(path.read_text(encoding="utf-8"))
        if find_refused(heading) or (HEADING.match(heading) and not heading.endswith("?"))
    ]
    assert not refused, "\n".join(refused)


def list_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page's prose: no headings, tables or blocks."""
    prose = re.sub(r"^ *```.*?^ *```|^ *[#|<].*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in re.split(r"\n(?=\s*(?:[-*>]|\d+\.) )|\n\s*\n|(?<=[.?!:])\s+", prose):
        yield re.sub(r"^\s*(?:(?:[-*>]|\d+\.) )?", "", line).strip()


def list_prose(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the pages that are written for users and contributors, by their names."""
    for path in list_pages(root):
        name = path.relative_to(root).as_posix()
        if name.startswith(("docs/", "examples/", "README")):
            yield name, path


def test_sentences_open_with_a_subject(project_root: Path) -> None:
    refused = [
        f"{name}: {sentence[:80]}"
        for name, path in list_prose(project_root)
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
