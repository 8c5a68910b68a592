"""The boards that the package knows by name, from templates/boards.yaml."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import yaml


def list_boards() -> dict[str, dict[str, Any]]:
    """Return each known board by name, with its entry for targets.yaml."""
    targets: dict[str, dict[str, Any]] = yaml.safe_load(_read_boards())["targets"]
    return targets


def find_board_text(name: str) -> str:
    """Return the lines of a board in templates/boards.yaml, with their comments and without indentation.

    Raises KeyError for an unknown board.
    """
    found = re.search(rf"^  {re.escape(name)}:.*\n(?:    .*\n?)*", _read_boards(), flags=re.MULTILINE)
    if found is None:
        raise KeyError(name)
    return "".join(line[2:] for line in found[0].splitlines(keepends=True))


def _read_boards() -> str:
    return (files("tvmbuild") / "templates" / "boards.yaml").read_text(encoding="utf-8")
