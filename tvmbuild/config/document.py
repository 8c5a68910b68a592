"""One YAML file as plain data that remembers where every key and value stands.

Scalars follow YAML 1.2's core schema, as editors read them: `no` and `1_000` are text and `1e-3` is a number, unlike in
PyYAML's 1.1.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tvmbuild.config.mistakes import KeyPath, Mistake, Position, show_value
from tvmbuild.config.syntax import MAX_DEPTH, SyntaxMistake, compose

MAX_VALUES = 200_000
"""The largest number of values after the expansion of aliases."""

MAX_DIGITS = 300
"""The largest number of digits of an integer. Longer ones become floats, because Python refuses to convert them."""

_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
_MERGE = "<<"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True)
class Document:
    """The data of one YAML file as dict, list, str, int, float, bool and None, with positions and mistakes."""

    file: str
    """The name of the file in messages."""
    data: Any = None
    keys: dict[KeyPath, Position] = field(default_factory=dict)
    """The position of each key."""
    values: dict[KeyPath, Position] = field(default_factory=dict)
    """The position of each value."""
    texts: dict[KeyPath, str] = field(default_factory=dict)
    """The text of each number as it is written, because the version 2.30 is not 2.3."""
    mistakes: list[Mistake] = field(default_factory=list)

    def report(self, path: KeyPath, what: str, expected: str | None = None, nearest: str | None = None) -> None:
        """Add a mistake at the value of ``path``, or at the nearest key above that is written in the file."""
        self.mistakes.append(Mistake(self.file, self.value_position(path), path, what, expected, nearest))

    def report_key(self, path: KeyPath, what: str, expected: str | None = None, nearest: str | None = None) -> None:
        """Add a mistake at the key of ``path``, or at the nearest key above that is written in the file."""
        self.mistakes.append(Mistake(self.file, self.key_position(path), path, what, expected, nearest))

    def value_position(self, path: KeyPath) -> Position:
        """Return the position of the value at ``path``, or of its key if the file has no value there."""
        return self.values[path] if path in self.values else self.key_position(path)

    def key_position(self, path: KeyPath) -> Position:
        """Return the position of the key or list item at ``path``, or of the nearest value around it in the file."""
        while path:
            if path in self.keys:
                return self.keys[path]
            if isinstance(path[-1], int) and path in self.values:
                return self.values[path]
            path = path[:-1]
        return Position()

    def part(self, path: KeyPath, key: str, default: Any) -> Any:
        """Return the value of ``key`` in the map at ``path``, or the default if it is absent or has mistakes."""
        if not self.is_sound((*path, key)):
            return default
        value = self.data
        for step in path:
            value = value[step]
        return value.get(key, default)

    def is_sound(self, path: KeyPath) -> bool:
        """Return whether no mistake was found at ``path`` or below."""
        return not any(mistake.path[: len(path)] == path for mistake in self.mistakes)


def read_document(path: Path, name: str) -> Document:
    """Return the file's data, or a Document without data whose mistakes give the reason."""
    document = Document(name)
    try:
        node = compose(path)
    except SyntaxMistake as mistake:
        document.mistakes.append(Mistake(name, mistake.position, (), mistake.what, mistake.expected))
        return document
    reader = _Reader(document)
    try:
        data = reader.read(node, ())
    except SyntaxMistake as mistake:
        return Document(name, mistakes=[Mistake(name, mistake.position, (), mistake.what, mistake.expected)])
    return Document(name, data, document.keys, document.values, document.texts, document.mistakes)


class _Reader:
    """A converter of YAML nodes to data. Values of an alias have the positions of the anchor's contents."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.open: set[int] = set()
        self.count = 0

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        self.document.values[path] = _position(node)
        self.count += 1
        if self.count > MAX_VALUES:
            what = f"the aliases expand to more than {MAX_VALUES:,} values"
            raise SyntaxMistake(_position(node), what, "a file of a sensible size")
        if len(path) > MAX_DEPTH:
            raise SyntaxMistake(_position(node), "nested too deeply", f"at most {MAX_DEPTH} levels")
        if node.tag not in _TAGS:
            self.document.report(path, f"the tag {_short_tag(node.tag)} is not supported", "a value without a tag")
        if isinstance(node, yaml.ScalarNode):
            return self.read_scalar(node, path)
        if id(node) in self.open:
            self.document.report(path, "this alias contains itself", "a finite value")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.read_mapping(node, path)
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self.open.discard(id(node))

    def read_scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        text: str = node.value
        if node.style or node.tag not in _TAGS:
            return text
        return _WORDS[text] if text in _WORDS else self.read_number(text, path)

    def read_number(self, text: str, path: KeyPath) -> int | float | str:
        """Return the number, or the text itself if it is not a number."""
        number: int | float
        if _INTEGER.fullmatch(text) and len(text) < MAX_DIGITS:
            number = int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        elif _FLOAT.fullmatch(text):
            number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
            if not math.isfinite(number):
                self.document.report(path, f"{show_value(text)} is not a finite number", "a finite number")
        else:
            return text
        self.document.texts[path] = text
        return number

    def read_mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name, (key, value) in self.collect_pairs(node, path).items():
            here = (*path, name)
            self.document.keys[here] = _position(key)
            data[name] = self.read(value, here)
        return data

    def collect_pairs(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the mapping's keys with their nodes, and those of merged mappings (`<<`) that it lacks."""
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            name = key.value
            if not isinstance(key, yaml.ScalarNode):
                self.report_node(key, path, "a key is a list or a map", "keys that are words")
            elif name == _MERGE and not key.style:
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
            elif name in pairs:
                first = _position(pairs[name][0]).line
                self.report_node(key, (*path, name), f"duplicate key, first on line {first}", "each key once")
            else:
                pairs[name] = (key, value)
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                self.report_node(source, (*path, _MERGE), "not a map", "an alias of a map, or a list of these")
            elif id(source) in self.open:
                self.report_node(source, (*path, _MERGE), "this alias contains itself", "a finite value")
            else:
                self.open.add(id(source))
                pairs = {**self.collect_pairs(source, path), **pairs}
                self.open.discard(id(source))
        return pairs

    def report_node(self, node: yaml.Node, path: KeyPath, what: str, expected: str) -> None:
        self.document.mistakes.append(Mistake(self.document.file, _position(node), path, what, expected))


def _position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


def _short_tag(tag: str) -> str:
    return show_value(tag.replace("tag:yaml.org,2002:", "!!")).strip('"')
