"""Hooks of mkdocs: lists that are made from the code or from measurements, and names of files outside the site."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from tvmbuild.cli import COMMANDS, GROUPS
from tvmbuild.config.key_table import format_markdown

ROOT = Path(__file__).resolve().parent.parent
KEYS = re.compile(r"^<!--keys:(\w+)/(\w+)(?:-(\w+))?-->$", re.MULTILINE)
FIELDS = re.compile(r"^(.+?): the fields of `(\w+)` in `(tvmbuild/[\w/]+\.py)`\.$", re.MULTILINE)
LOG = logging.getLogger("mkdocs.plugins.tvmbuild")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the lists that only the site has into the page."""
    for mark, describe in LISTS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, describe())
    markdown = FIELDS.sub(_describe_fields, KEYS.sub(_describe_keys, markdown))
    return re.sub(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)", lambda found: _name(found, page), markdown)


def _describe_keys(mark: re.Match[str]) -> str:
    """Return the table of the keys of the part that a mark names, without those of the part beside it."""
    file, part, beside = mark.groups()
    others = f", beside those of `{beside}`" if beside else ""
    return f"Keys of `{part}`{others}:\n\n{format_markdown(file, part, beside or '')}\n"


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


def describe_passes() -> str:
    """Return each pass of the compiler, by its docstring and its effect on a small network."""
    _add_folder("tests/support")
    return str(importlib.import_module("compiler_page").write_section())


def describe_operators() -> str:
    """Return the table of ONNX's operators that the last run of all cases gave."""
    _add_folder("benchmarks")
    return str(importlib.import_module("operator_results").read_results().make_table())


def describe_ratios() -> str:
    """Return the tables of the committed times beside ONNX Runtime's."""
    _add_folder("benchmarks")
    return str(importlib.import_module("ratio_results").write_tables())


def describe_cards() -> str:
    """Return the table of the modern networks' times on a card."""
    networks = json.loads((ROOT / "benchmarks/results/modern_on_card.json").read_text(encoding="utf-8"))["networks"]
    rows = [[each.replace("_", " ") for each in networks[0]], ["---"] * len(networks[0])]
    rows += [["" if each is None else str(each) for each in network.values()] for network in networks]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def describe_folders() -> str:
    """Return the folders of tvmbuild and of its compiler, from the top layer to the lowest, by their docstrings."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    linter = toml.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    rows = ["| folder of `tvmbuild/` | |", "|---|---|"]
    for place in ("tvmbuild", "tvmbuild.compiler"):
        (layers,) = (each["layers"] for each in linter["contracts"] if each.get("containers") == [place])
        for name in (name.strip() for layer in layers for name in layer.split("|")):
            module = ROOT / place.replace(".", "/") / name / "__init__.py"
            if module.is_file():
                about = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").splitlines()[0]
                inner = f"{place}/{name}/".partition("/" if place == "tvmbuild" else ".")[2]
                rows.append(f"| `{inner}` | {about.replace('``', '`')} |")
    return "\n".join(rows)


def describe_header() -> str:
    """Return the header of the C interface, as code."""
    header = (ROOT / "tvmbuild/package/c/tvmbuild.h").read_text(encoding="utf-8")
    return f"## tvmbuild.h\n\n```c\n{header}```"


def _add_folder(name: str) -> None:
    if (folder := str(ROOT / name)) not in sys.path:
        sys.path.insert(0, folder)


LISTS = {
    "<!-- commands -->": describe_commands,
    "<!-- header -->": describe_header,
    "<!-- passes -->": describe_passes,
    "<!-- operators -->": describe_operators,
    "<!-- ratios -->": describe_ratios,
    "<!-- cards -->": describe_cards,
    "<!-- folders -->": describe_folders,
}
"""The place of a list in a page → the function that writes it."""
