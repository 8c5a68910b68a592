"""The ONNX nodes that stay in floats in a reduced precision: a cell's file `kept.json`, and what a search tells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmbuild.base.steps import Step

KEPT = "kept"
"""The role of the file that lists a cell's nodes in float32. Only cells with `keep:` have it."""


def list_kept(step: Step[Any]) -> tuple[str, ...]:
    """Return the names of the nodes that stay in float32 in the step's cell, sorted."""
    return read_kept_nodes(step.input(KEPT)) if KEPT in step.inputs else ()


def read_kept_nodes(path: Path) -> tuple[str, ...]:
    """Return the names of the nodes in the file."""
    return tuple(map(str, json.loads(path.read_text(encoding="utf-8"))["nodes"]))


@dataclass(frozen=True)
class KeptShare:
    """A group of operators that stays in floats, and the reason."""

    name: str
    nodes: tuple[str, ...]
    harm: float | None
    """The group's share of the squared errors that each group alone causes in the reduced precision. None if it is not
    known.
    """
    cost: float
    """The group's share of the time that the reduced precision saves, estimated from operations and memory."""


def read_shares(value: Mapping[str, Any]) -> tuple[KeptShare, ...]:
    """Return the groups in the JSON value of `quantize.json` or `kept.json`, or none if there was no search."""
    try:
        return tuple(_read_share(row) for row in value["kept"]["groups"])
    except (KeyError, TypeError, ValueError):
        return ()


def _read_share(row: Mapping[str, Any]) -> KeptShare:
    harm = None if row["harm"] is None else float(row["harm"])
    return KeptShare(str(row["name"]), tuple(map(str, row["nodes"])), harm, float(row["cost"]))
