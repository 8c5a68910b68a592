from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from site_pages import render_page

from tvmbuild.config.key_table import format_markdown, format_text, list_keys, list_parts
from tvmbuild.config.schema import load_schema


def _keys(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {key for item in schema for key in _keys(item)}
    if not isinstance(schema, dict):
        return set()
    return {*schema.get("properties", {}), *(key for item in schema.values() for key in _keys(item))}


@pytest.mark.parametrize("name", ["models", "targets"])
def test_the_site_names_every_key(name: str, project_root: Path) -> None:
    page = re.sub(r"```.*?```", "", render_page(project_root, "reference/configuration.md"), flags=re.DOTALL)
    assert "<!--keys:" not in page
    part = page.partition("\n## targets.yaml")[0 if name == "models" else 2]
    named = {word for code in re.findall(r"`([^`]+)`", part) for word in re.findall(r"[\w-]+", code)}
    assert _keys(load_schema(name)) - named == set()


@pytest.mark.parametrize("file", ["models", "targets"])
def test_each_key_has_a_meaning_and_its_default(file: str) -> None:
    for part in list_parts(file):
        table, text = format_markdown(file, part), format_text(file, part)
        for key in list_keys(file, part):
            assert key.meaning, (part, key.name)
            assert table.count(f"\n| `{key.name}` |") == 1
            assert f"\n{key.name}" in text
    tune = load_schema("targets")["$defs"]["tune"]["properties"]
    defaults = {key.name: key.default for key in list_keys("targets", "tune")}
    words = {name: option["default"] for name, option in tune.items()}
    assert defaults == {name: each if isinstance(each, str) else json.dumps(each) for name, each in words.items()}


def test_a_part_with_forms_requires_only_what_all_of_them_do() -> None:
    source = {key.name: key.default for key in list_keys("models", "source")}
    assert {"path", "url", "package", "hub", "export"} <= source.keys()
    assert "required" not in source.values()
    assert {key.name: key.default for key in list_keys("models", "frame")}["size"] == "required"


def test_shared_keys_are_left_out() -> None:
    rows = format_markdown("targets", "cuda", "llvm")
    assert "| `arch` |" in rows
    assert "| `tune` |" not in rows
    rows = format_markdown("models", "masks", "boxes")
    assert "| `score` |" not in rows
    assert "| `most` | `100` |" in rows  # that of boxes is 300
