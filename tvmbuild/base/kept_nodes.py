"""The file `kept.json` of a cell: the ONNX nodes that stay in float32 in a precision of 16 bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tvmbuild.base.steps import Step

KEPT = "kept"
"""The role of the file. Only cells with `keep:` have it."""


def list_kept(step: Step[Any]) -> tuple[str, ...]:
    """Return the names of the nodes that stay in float32 in the step's cell, sorted."""
    return read_kept_nodes(step.input(KEPT)) if KEPT in step.inputs else ()


def read_kept_nodes(path: Path) -> tuple[str, ...]:
    """Return the names of the nodes in the file."""
    return tuple(map(str, json.loads(path.read_text(encoding="utf-8"))["nodes"]))
