"""The lists that only the site has: each has a place in one page, and says what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def hooks(project_root: Path) -> ModuleType:
    """The hooks of mkdocs, which no package contains."""
    spec = importlib.util.spec_from_file_location("site_hooks", project_root / "docs/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_list_has_a_place(hooks: ModuleType, project_root: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (project_root / "docs").rglob("*.md")]
    marks = [mark for page in pages for mark in re.findall(r"^<!-- \w+ -->$", page, re.MULTILINE)]
    assert sorted(marks) == sorted(hooks.LISTS)


def test_every_folder_of_the_package_is_described(hooks: ModuleType, project_root: Path) -> None:
    table = hooks.describe_folders()
    rows = dict(re.findall(r"^\| `([\w/.]+)/` \| (.+\.) \|$", table, re.MULTILINE))
    assert len(rows) == len(table.splitlines()) - 2
    folders = {path.parent.name for path in (project_root / "tvmbuild").glob("*/__init__.py")} - {"templates"}
    assert folders == {name for name in rows if "/" not in name}
    assert list(rows).index("cli") < list(rows).index("stages") < list(rows).index("base")
    assert "compiler/passes" in rows


def test_every_command_is_described(hooks: ModuleType) -> None:
    text = hooks.describe_commands()
    assert all(f"### `tvmbuild {name}`\n" in text for name in hooks.COMMANDS)
