"""The command `tvmbuild target add NAME`: append a target to targets.yaml, and keep the file's comments and order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import write_bytes
from tvmbuild.base.layout import TARGETS_YAML
from tvmbuild.cli.compile.project import targets_text
from tvmbuild.cli.compile.target_words import find_target
from tvmbuild.cli.target.boards import find_board_text, list_boards
from tvmbuild.config.load import load_targets
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.targets.table import target_kind

_HERE = frozenset({"cuda", "vulkan"})
"""The words that mean this machine's own GPU."""
_BY_HAND = "Add the target by hand."
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def add_target(root: Path, word: str, new_name: str | None = None) -> str:
    """Append the target that ``word`` names to the project's targets.yaml, and return the message for the user.

    ``word`` is a board's name, or anything that `--target` takes. ``new_name``, if not None, is the target's name in
    the file. Raises TvmbuildError, with nothing changed, if the file has a target of that name or is not written in
    block style.
    """
    path, present = root / TARGETS_YAML, load_targets(root)
    before = path.read_bytes()
    name, block = _write_block(word, new_name)
    if name in present:
        raise TvmbuildError(f"targets.yaml has a target {name}", "Name the new one by `--as NEW`.")
    text = before.decode("utf-8-sig")
    line, indent = _find_end(text)
    shifted = "".join(" " * indent + each if each.strip() else each for each in block.splitlines(keepends=True))
    write_bytes(path, _insert(text, line, shifted).encode())
    try:
        others = {each: data for each, data in load_targets(root).items() if each != name}
    except TvmbuildError:
        others = {}
    if others != present:
        write_bytes(path, before)
        raise TvmbuildError(
            f"targets.yaml is written in a way that `target add` cannot extend; add\n{shifted}", _BY_HAND
        )
    return f"wrote {TARGETS_YAML}: {name}\n{shifted}next: doit '*@{name}'"


def _insert(text: str, line: int, block: str) -> str:
    """Return the text with the block inserted after that many lines, with the line endings of the text."""
    end = "\r\n" if "\r\n" in text else "\n"
    lines = [each.rstrip("\r\n") for each in text.splitlines(keepends=True)]
    return end.join([*lines[:line], "", *block.splitlines(), *lines[line:], ""])


def _write_block(word: str, new_name: str | None) -> tuple[str, str]:
    """Return the new target's name and its YAML block, whose first line has no indentation."""
    if new_name is not None and not _NAME.fullmatch(new_name):
        raise TvmbuildError(f"{new_name} is not a name of a target", "Use a-z, 0-9, `-`, `_` and `.`.")
    if word in list_boards():
        name, _, rest = find_board_text(word).partition(":")
        return new_name or name, f"{new_name or name}:{rest}"
    target = find_target(word)
    data = target.data if word in _HERE or _runs_here(target.data) else {**target.data, "device": "none"}
    named = replace(target, name=new_name or target.name, data=data)
    block = targets_text(named).partition("targets:\n")[2]
    return named.name, "".join(line[2:] for line in block.splitlines(keepends=True))


def _runs_here(data: Mapping[str, Any]) -> bool:
    """Return whether this machine's CPU runs the target's code. The answer is False for every GPU.

    The words describe a GPU without looking for one.
    """
    cpu = Attributes({key: data[key] for key in ("mcpu", "mtriple", "num-cores") if key in data})
    return data["kind"] == "llvm" and target_kind("llvm").explain_here(cpu, detect_capabilities()) is None


def _find_end(text: str) -> tuple[int, int]:
    """Return the number of lines up to the end of `targets:`, and the column of the targets' names.

    Raises TvmbuildError if `targets:` is not in block style.
    """
    depth, is_key, key, inside = 0, True, "", False
    marks: list[tuple[int, int, int]] = []  # (line, column at the end, column at the start) of the value of `targets:`
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            if inside and depth == 1:
                break
        start, end = event.start_mark, event.end_mark
        # A block collection ends where the next token begins; aliases and flow collections end where they are written.
        if inside and not isinstance(event, yaml.CollectionStartEvent) and start and end and end.index > start.index:
            marks.append((end.line, end.column, start.column))
        if depth == 1 and isinstance(event, yaml.NodeEvent):
            is_block = isinstance(event, yaml.MappingStartEvent) and not event.flow_style
            inside = not is_key and key == "targets" and is_block
            key = str(getattr(event, "value", "")) if is_key else key
            is_key = not is_key
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
    if not marks:
        raise TvmbuildError("`targets:` in targets.yaml is not in block style", _BY_HAND)
    line, column, _ = marks[-1]
    return line + (column > 0), marks[0][2]
