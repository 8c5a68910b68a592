"""`tvmbuild target add NAME`: append a target to targets.yaml, with the file's comments and order kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tvmbuild.base.files import write_text
from tvmbuild.base.layout import TARGETS_YAML
from tvmbuild.base.specs import Attributes
from tvmbuild.cli.compile.project import targets_text
from tvmbuild.cli.compile.target_words import find_target
from tvmbuild.cli.target.boards import find_board_text, list_boards
from tvmbuild.config.load import load_targets
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.targets.table import target_kind

_HERE = frozenset({"cuda", "vulkan"})
"""Words for this machine's own card."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def add_target(root: Path, word: str, new_name: str | None = None) -> str:
    """Append the target that ``word`` names to the project's targets.yaml; return what to tell.

    ``word`` is a board's name, or anything that `--target` takes. Raise TvmbuildError, with nothing written, where
    the file has a target of that name or is not laid out in block style.
    """
    path = root / TARGETS_YAML
    text, present = path.read_text(encoding="utf-8"), load_targets(root)
    name, block = _write_block(word, new_name)
    if name in present:
        raise TvmbuildError(f"targets.yaml has a target {name}", "Name the new one by `--as NEW`.")
    line, indent = _find_end(text)
    lines = text.splitlines(keepends=True)
    if lines[line - 1 : line] and not lines[line - 1].endswith("\n"):
        lines[line - 1] += "\n"
    shifted = "".join(" " * indent + each if each.strip() else each for each in block.splitlines(keepends=True))
    write_text(path, "".join([*lines[:line], "\n", shifted, *lines[line:]]))
    try:
        load_targets(root)
    except TvmbuildError:
        write_text(path, text)
        raise
    return f"wrote {TARGETS_YAML}: {name}\n{shifted}next: doit '*@{name}'"


def _write_block(word: str, new_name: str | None) -> tuple[str, str]:
    """Return the new target's name and its YAML, indented as a top-level key."""
    if new_name is not None and not _NAME.fullmatch(new_name):
        raise TvmbuildError(f"{new_name} is no name of a target", "Use a-z, 0-9, `-`, `_` and `.`.")
    if word in list_boards():
        name, _, rest = find_board_text(word).partition(":")
        return new_name or name, f"{new_name or name}:{rest}"
    target = find_target(word)
    data = target.data if word in _HERE or _runs_here(target.data) else {**target.data, "device": "none"}
    named = replace(target, name=new_name or target.name, data=data)
    block = targets_text(named).partition("targets:\n")[2]
    return named.name, "".join(line[2:] for line in block.splitlines(keepends=True))


def _runs_here(data: Mapping[str, Any]) -> bool:
    """Return whether this machine's CPU runs the target's code; False for GPUs, which the words describe unseen."""
    cpu = Attributes({key: data[key] for key in ("mcpu", "mtriple", "num-cores") if key in data})
    return data["kind"] == "llvm" and target_kind("llvm").explain_here(cpu, detect_capabilities()) is None


def _find_end(text: str) -> tuple[int, int]:
    """Return the number of lines up to the end of `targets:`, and the column of its names."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    targets = next((value for key, value in pairs if key.value == "targets"), None)
    if not isinstance(targets, yaml.MappingNode) or targets.flow_style or not targets.value:
        raise TvmbuildError("`targets:` in targets.yaml is not in block style", "Add the target by hand.")
    last: yaml.Node = targets
    while isinstance(last, (yaml.MappingNode, yaml.SequenceNode)) and not last.flow_style and last.value:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    return last.end_mark.line + 1, targets.value[0][0].start_mark.column
