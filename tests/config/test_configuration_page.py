from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tvmbuild.config.schema import load_schema


def _keys(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {key for item in schema for key in _keys(item)}
    if not isinstance(schema, dict):
        return set()
    return {*schema.get("properties", {}), *(key for item in schema.values() for key in _keys(item))}


@pytest.mark.parametrize("name", ["models", "targets"])
def test_the_page_names_every_key(name: str, project_root: Path) -> None:
    page = (project_root / "docs/reference/configuration.md").read_text(encoding="utf-8")
    page = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    part = page.partition("## targets.yaml")[0 if name == "models" else 2]
    named = {word for code in re.findall(r"`([^`]+)`", part) for word in re.findall(r"[\w-]+", code)}
    assert _keys(load_schema(name)) - named == set()


def test_the_page_states_the_schema_defaults(project_root: Path) -> None:
    page = (project_root / "docs/reference/configuration.md").read_text(encoding="utf-8")
    for name, part in (("models", "simplify"), ("models", "tolerance"), ("targets", "tune"), ("targets", "benchmark")):
        section = page.partition(f"### `{part}`")[2].partition("\n#")[0]
        for key, option in load_schema(name)["$defs"][part]["properties"].items():
            if "default" not in option:
                continue  # it has its own defaults, or none
            (row,) = re.findall(rf"^\| `{key}` \|.*$", section, re.MULTILINE)
            value = option["default"]
            assert row.split(" | ")[-2] == f"`{value if isinstance(value, str) else json.dumps(value)}`", key
