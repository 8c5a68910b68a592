"""The mistakes in a YAML file: the place, the fault, and the word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Position:
    """A position in a file. Line and column count from 1."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True)
class Mistake:
    """One mistake in a YAML file."""

    file: str
    position: Position
    path: KeyPath
    what: str
    """The fault, in words."""
    expected: str | None = None
    """The expected value, in words."""
    nearest: str | None = None
    """The valid word that was probably meant."""

    def __str__(self) -> str:
        """Return the mistake in one line: position, key, fault and, if known, expected value and nearest word."""
        where = f"{self.file}:{self.position.line}:{self.position.column}: "
        key = f"{show_path(self.path)}: " if self.path else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        nearest = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        text = f"{where}{key}{self.what}{expected}{nearest}"
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def show_path(path: KeyPath) -> str:
    """Return the path of a key as `models.mobilenet_v2.preprocess.mean[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part and not set(part) & set('." \t\n[]:')
            text += ("." if text else "") + (part if plain else '"' + part + '"')
    return text


def show_value(value: object) -> str:
    """Return the value in a few words, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        short = value if len(value) <= 60 else value[:57] + "…"
        return f'"{short}"'
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else str(value)


def list_words(words: Iterable[str], last: str = "or") -> str:
    """Return the words as a list in a sentence: `a, b or c`. ``last`` is the last conjunction."""
    items = list(words)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"
