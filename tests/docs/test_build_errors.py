"""The messages that the page of build errors quotes are in the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/build-errors.md").read_text(encoding="utf-8")
ROWS = [
    line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| message")
]
MESSAGES = [part for row in ROWS for part in re.findall(r"`([^`]+)`", row)]


@cache
def _list_texts() -> list[str]:
    """Return the constant parts of all strings of the package."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tvmbuild").rglob("*.py"))
    constants = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [node.value for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_are_in_the_code(message: str) -> None:
    assert any(message in text for text in _list_texts())


def test_every_row_quotes_a_message() -> None:
    assert len(ROWS) > 12
    assert all("`" in row for row in ROWS)
