"""The conversion of YAML text to nodes. Each way in which a file is not YAML has its own message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tvmbuild.config.mistakes import Position

MAX_BYTES = 4 << 20
MAX_DEPTH = 100

_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SyntaxMistake(Exception):  # noqa: N818 - a mistake of the user, not an error
    """The exception that the file is not a YAML document."""

    def __init__(self, position: Position, what: str, expected: str | None = None) -> None:
        super().__init__(what)
        self.position, self.what, self.expected = position, what, expected


class _Loader(_FastLoader):  # type: ignore[misc]  # the base is chosen at run time
    """A loader that composes nodes and leaves the types of plain scalars to the caller, without YAML 1.1's guesses."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 - PyYAML's class attribute


def compose(path: Path) -> yaml.Node:
    """Return the root node of the file's only document. Raises SyntaxMistake if the file is not YAML."""
    text = _read_text(path)
    try:
        node = _compose_with(_Loader, text)
    except yaml.YAMLError:
        try:  # libyaml words its errors differently, so always show the error of the Python parser
            node = _compose_with(yaml.SafeLoader, text)
        except yaml.YAMLError as error:
            raise _explain(error, text) from None
    if node is None:
        raise SyntaxMistake(Position(), "the file is empty", "a map")
    return node


def _compose_with(loader_class: Any, text: str) -> yaml.Node | None:
    if _may_nest_deeply(text):
        _refuse_deep_nesting(loader_class, text)
    loader = loader_class(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SyntaxMistake(Position(), "no such file", "a file that `tvmbuild init` writes") from None
    except OSError as error:
        raise SyntaxMistake(Position(), f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise SyntaxMistake(Position(), f"the file has {len(data):,} bytes", f"at most {MAX_BYTES:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        raise SyntaxMistake(
            _position_after(before), f"the byte 0x{data[error.start]:02x} is not UTF-8", "a file saved as UTF-8"
        ) from None


def _position_after(text: str) -> Position:
    return Position(text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)


def _may_nest_deeply(text: str) -> bool:
    """Return whether the nesting may exceed the limit. The test is a cheap upper bound."""
    brackets = text.count("[") + text.count("{")
    longest = max(len(line) for line in text.split("\n"))
    return brackets > 500 or longest > 500


def _refuse_deep_nesting(loader_class: Any, text: str) -> None:
    """Raise SyntaxMistake at the first value that is nested too deeply.

    PyYAML's composers recurse, and the C composer recurses until the process dies. libyaml from 0.2.6 itself refuses
    1,000 levels while it reads ahead, before it reports the first of them.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark = event.start_mark or yaml.Mark("", 0, 0, 0, None, 0)
                raise SyntaxMistake(
                    Position(mark.line + 1, mark.column + 1), "nested too deeply", f"at most {MAX_DEPTH} levels"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _explain(error: yaml.YAMLError, text: str) -> SyntaxMistake:
    if isinstance(error, yaml.reader.ReaderError):
        position = _position_after(text[: error.position])
        return SyntaxMistake(
            position, f"the character U+{ord(text[error.position]):04X} is not allowed", "printable text"
        )
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return SyntaxMistake(Position(), f"not YAML: {error}")
    position = Position(error.problem_mark.line + 1, error.problem_mark.column + 1)
    problem = error.problem or "cannot be understood"
    if "'\\t'" in problem:
        return SyntaxMistake(position, "a tab where YAML wants spaces", "spaces")
    if problem == "but found another document":
        return SyntaxMistake(position, "a second document begins here", "one document a file")
    if problem.startswith("found undefined alias"):
        return SyntaxMistake(
            position, f"no anchor of that name: {problem[len('found undefined alias ') :]}", "an anchor above"
        )
    context = f" {error.context}" if error.context else ""
    return SyntaxMistake(position, f"not YAML: {problem}{context}")
