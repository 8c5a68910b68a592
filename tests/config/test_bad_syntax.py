"""Files that are not YAML, or YAML that is refused, with the exact message."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from tvmbuild.config import syntax

CASES: dict[str, tuple[str | bytes, str]] = {
    "empty": (
        "",
        "models.yaml:1:1: the file is empty; expected a map",
    ),
    "only comments": (
        "# nothing\n",
        "models.yaml:1:1: the file is empty; expected a map",
    ),
    "a list": (
        "- a\n",
        "models.yaml:1:1: found a list; expected a map",
    ),
    "null": (
        "~\n",
        "models.yaml:1:1: found nothing; expected a map",
    ),
    "a tab": (
        "models:\n\tnet: 1\n",
        "models.yaml:2:1: a tab where YAML wants spaces; expected spaces",
    ),
    "an open bracket": (
        "models: {net: [1\n",
        "models.yaml:2:1: not YAML: expected ',' or ']', but got '<stream end>' while parsing a flow sequence",
    ),
    "an open quote": (
        'models:\n  net: "abc\n',
        "models.yaml:3:1: not YAML: found unexpected end of stream while scanning a quoted scalar",
    ),
    "two colons": (
        "models: a: b\n",
        "models.yaml:1:10: not YAML: mapping values are not allowed here",
    ),
    "bad indentation": (
        "models:\n  net:\n    source: {path: models/net.onnx}\n   enabled: true\n",
        "models.yaml:4:4: not YAML: expected <block end>, but found '<block mapping start>' while parsing a block mapping",
    ),
    "two documents": (
        "models: {}\n---\nmodels: {}\n",
        "models.yaml:2:1: a second document begins here; expected one document a file",
    ),
    "not UTF-8": (
        b"models:\n  caf\xe9: 1\n",
        "models.yaml:2:6: the byte 0xe9 is not UTF-8; expected a file saved as UTF-8",
    ),
    "a control character": (
        "models:\n  net: \x01\n",
        "models.yaml:2:8: the character U+0001 is not allowed; expected printable text",
    ),
    "an unknown alias": (
        "models:\n  net: *there\n",
        "models.yaml:2:8: no anchor of that name: 'there'; expected an anchor above",
    ),
    "a tag": (
        "models: !!python/object:os.system {}\n",
        "models.yaml:1:9: models: the tag !!python/object:os.system is not supported; expected a value without a tag",
    ),
    "a duplicate key": (
        "models:\n  net:\n    source: {path: models/net.onnx}\n    enabled: true\n    enabled: false\n",
        "models.yaml:5:5: models.net.enabled: duplicate key, first on line 4; expected each key once",
    ),
    "a duplicate model": (
        "models:\n  net: {source: {path: models/net.onnx}}\n  net: {source: {path: models/net.onnx}}\n",
        "models.yaml:3:3: models.net: duplicate key, first on line 2; expected each key once",
    ),
    "a duplicate top-level key": (
        "models: {}\nmodels: {}\n",
        "models.yaml:2:1: models: duplicate key, first on line 1; expected each key once",
    ),
    "a quoted duplicate": (
        "models:\n  net: {source: {path: models/net.onnx, 'path': models/net.onnx}}\n",
        "models.yaml:2:41: models.net.source.path: duplicate key, first on line 2; expected each key once",
    ),
    "a key that is a list": (
        "models:\n  [a]: 1\n",
        "models.yaml:2:3: models: a key is a list or a map; expected keys that are words",
    ),
    "merging text": (
        "models:\n  net:\n    <<: text\n    source: {path: models/net.onnx}\n",
        "models.yaml:3:9: models.net.<<: not a map; expected an alias of a map, or a list of these",
    ),
    "an alias in itself": (
        "models: &a\n  net: *a\n",
        "models.yaml:1:9: models.net: this alias contains itself; expected a finite value",
    ),
    "merging itself": (
        "models: &a\n  <<: *a\n",
        "models.yaml:1:9: models.<<: this alias contains itself; expected a finite value",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_of_bad_syntax(name: str, load_mistakes: Callable[..., list[str]]) -> None:
    content, message = CASES[name]
    assert "\n".join(load_mistakes(models=content)) == message


def test_alias_bomb(load_mistakes: Callable[..., list[str]]) -> None:
    lines = ["x-a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for below, name in zip("abcde", "bcdef", strict=True):
        lines.append(f"x-{name}: &{name} [{', '.join([f'*{below}'] * 10)}]")
    bomb = "\n".join([*lines, "models: {}", ""])
    message = "models.yaml:1:34: the aliases expand to more than 200,000 values; expected a file of a sensible size"
    assert load_mistakes(models=bomb) == [message]


@pytest.mark.parametrize(
    ("content", "column"),
    [("models: " + "[" * 100_000 + "]" * 100_000 + "\n", 108), ("- " * 100_000 + "a\n", 201)],
    ids=["flow", "block"],
)
def test_deep_nesting(content: str, column: int, load_mistakes: Callable[..., list[str]]) -> None:
    message = f"models.yaml:1:{column}: nested too deeply; expected at most 100 levels"
    assert load_mistakes(models=content) == [message]


def test_nesting_within_short_lines(load_mistakes: Callable[..., list[str]]) -> None:
    content = "".join(" " * depth + "a:\n" for depth in range(200))
    assert load_mistakes(models=content) == ["models.yaml:102:102: nested too deeply; expected at most 100 levels"]


def test_too_large(load_mistakes: Callable[..., list[str]]) -> None:
    content = "# " + "x" * (4 << 20) + "\n"
    assert load_mistakes(models=content) == [
        "models.yaml:1:1: the file has 4,194,307 bytes; expected at most 4,194,304"
    ]


def test_python_parser_words_and_places_are_those_of_libyaml(
    load_mistakes: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PurePython(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, list[object]] = {}  # noqa: RUF012

    monkeypatch.setattr(syntax, "_Loader", PurePython)
    for content, message in CASES.values():
        assert "\n".join(load_mistakes(models=content)) == message
