"""Hooks of mkdocs: help of commands from their parsers, and names for files that are not on the site."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

from tvmbuild.cli import COMMANDS, GROUPS
from tvmbuild.config.key_table import format_markdown

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- commands -->"
FIELDS = re.compile(r"^(.+?): the fields of `(\w+)` in `(tvmbuild/[\w/]+\.py)`\.$", re.MULTILINE)
HEADER = "<!-- header -->"
MEASURED = "<!-- measured -->"
KEYS = re.compile(r"^(Keys.*?(?: beside those of `(\w+)`)?): `tvmbuild schema (\w+) (\w+)`\.$", re.MULTILINE)
LOG = logging.getLogger("mkdocs.plugins.tvmbuild")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with what only the site has."""
    if MARK in markdown:
        markdown = markdown.replace(MARK, describe_commands())
    if HEADER in markdown:
        header = (ROOT / "tvmbuild/package/c/tvmbuild.h").read_text(encoding="utf-8")
        markdown = markdown.replace(HEADER, f"## tvmbuild.h\n\n```c\n{header}```")
    if MEASURED in markdown:
        markdown = markdown.replace(MEASURED, describe_measurements())
    markdown = FIELDS.sub(_describe_fields, KEYS.sub(_describe_keys, markdown))
    return re.sub(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)", lambda found: _name(found, page), markdown)


def _describe_keys(line: re.Match[str]) -> str:
    """Return the table of keys that a line names, under the line's words if they say more than `Keys`."""
    words, without, file, part = line.groups()
    table = format_markdown(file, part, without or "")
    return table if words == "Keys" else f"{words}:\n\n{table}"


def _describe_fields(line: re.Match[str]) -> str:
    """Return the table of a class's fields and their docstrings, under the words of the line that names the class."""
    words, name, file = line.groups()
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    rows = []
    for field, text in zip(body, [*body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            said = text.value.value if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) else ""
            rows.append(f"| `{field.target.id}` | {' '.join(str(said).replace('``', '`').split())} |")
    return "\n".join([f"{words}:\n", "| key | meaning |", "|---|---|", *rows])


def _name(link: re.Match[str], page: Any) -> str:
    """Name a file outside the site, where a link would lead nowhere; --strict fails if it is gone."""
    text, target = link.groups()
    path = Path(os.path.normpath(ROOT / "docs" / Path(page.file.src_uri).parent / target.partition("#")[0]))
    if path.is_relative_to(ROOT / "docs"):
        return link[0]
    if not path.exists():
        LOG.warning("%s links to %s, which is not there", page.file.src_uri, target)
    name = path.relative_to(ROOT).as_posix()
    return f"`{name}`" if text in {name, path.name} else f"{text} (`{name}`)"


def describe_measurements() -> str:
    """Return a table for each group of networks that was timed beside ONNX Runtime."""
    parts = []
    results = ROOT / "benchmarks/results/onnxruntime.json"
    for group in json.loads(results.read_text(encoding="utf-8"))["groups"]:
        threads = "one thread" if group["threads"] == 1 else f"{group['threads']} threads"
        how = f"For {group['cpu']}, on {group['machine']}, {group['date']}; schedules: {group['schedules']}:"
        columns = {"ms": "ms", "onnxruntime_ms": "ONNX Runtime, ms", "ratio": "ratio", "over_openvino": "over OpenVINO"}
        rivals = {key: name for key, name in columns.items() if any(key in each for each in group["networks"])}
        head = f"| network | {' | '.join(rivals.values())} |\n|{'---|' * (len(rivals) + 1)}"
        rows = [f"| {each['name']} | {' | '.join(_cell(each, key) for key in rivals)} |" for each in group["networks"]]
        title = f"### {group['title'][0].upper()}{group['title'][1:]}, {threads}"
        parts += [title, how, f"`{group['command']}`", "\n".join([head, *rows])]
    return "\n\n".join(parts)


def _cell(network: dict[str, Any], key: str) -> str:
    interval = network["interval"] if key == "ratio" else None
    return str(network.get(key, "")) + (f" [{interval[0]}, {interval[1]}]" if interval else "")


def describe_commands() -> str:
    """Return each command's help, in the groups of `tvmbuild --help`."""
    os.environ["COLUMNS"] = "100"
    parts = []
    for title, names in GROUPS.items():
        parts.append(f"## To {title}")
        for name in names:
            parser = argparse.ArgumentParser(prog=f"tvmbuild {name}")
            importlib.import_module(COMMANDS[name]).add_arguments(parser)
            parts += [f"### `tvmbuild {name}`", _sentence(importlib.import_module(COMMANDS[name]).HELP)]
            parts += [f"```text\n{each.format_help().rstrip()}\n```" for each in _list_parsers(parser)]
    return "\n\n".join(parts)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _list_parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return the parser and those of its actions."""
    found = [parser]
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                if fill := getattr(each, "fill", None):
                    fill()
                found += _list_parsers(each)
    return found
