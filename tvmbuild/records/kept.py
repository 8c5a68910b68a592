"""Operators found to stay in floats: `records/kept/<precision>/<key>.json`, which every clone may use without a search.

The key is a digest of all that the search depends on, except the modules that a metric imports. Whoever reads a choice
judges it again. This module imports no tvm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmbuild.base.files import write_json
from tvmbuild.records.conflicts import check_conflict

FORMAT = 1
_SHARES = ("harm", "cost")


def read_kept(path: Path) -> dict[str, Any] | None:
    """Return the choice in the file, or None if there is none or it is damaged.

    Raises ConflictedRecordsError if git has left both sides of a merge in the file.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
        return dict(data) if _is_sound(data) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        check_conflict(text, path, f"take one side, `git checkout --ours -- {path}`, or delete the file")
        return None


def _is_sound(data: Mapping[str, Any]) -> bool:
    """Return whether the JSON value is one of this format. Raises KeyError or TypeError for other values."""
    numbers = [
        data["total"],
        data["seconds"],
        data["trials"],
        *(row[name] for row in data["groups"] for name in _SHARES),
    ]
    texts = [data["before"], *(name for row in data["groups"] for name in (row["name"], *row["nodes"]))]
    sound = all(type(each) in (int, float) for each in numbers) and all(isinstance(each, str) for each in texts)
    return bool(sound and data["format"] == FORMAT)


def list_kept_nodes(choice: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the operators in a choice of `read_kept`."""
    return frozenset(name for group in choice["groups"] for name in group["nodes"])


def write_kept(path: Path, model: str, groups: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> None:
    """Publish a choice for the ``model``: its groups of operators, and figures that tell why."""
    write_json(path, {"format": FORMAT, "model": model, **told, "groups": list(groups)})
