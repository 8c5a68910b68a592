"""The names in the pages about the code exist: files, folders, functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGES = (
    "contributing",
    "explanation/architecture",
    "explanation/compiler",
    "explanation/performance",
    "explanation/tvm-notes",
    "explanation/tvm-upgrade",
    "how-to/cuda",
    "how-to/plan",
)
EXAMPLES = {"devices/shelf/__init__.py", "devices/shelf/kind.py", "devices/shelf/device.py", "targets/metal.py"}
"""The files that a reader adds in the pages' examples."""


def _list_names(text: str) -> Iterator[str]:
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (name for name in re.findall(r"`([^`\s]+)`", prose) if not re.search(r"[A-Z]{4}|[<:=(*]|\.yaml$", name))


@pytest.mark.parametrize("page", PAGES)
def test_files_and_folders_exist(page: str, project_root: Path) -> None:
    text = (project_root / "docs" / f"{page}.md").read_text(encoding="utf-8")
    package = project_root / "tvmbuild"
    rooms = {path.name for path in package.iterdir() if path.is_dir()}
    names = (name.removeprefix("tvmbuild/") for name in _list_names(text))
    named = [name for name in names if name.split("/")[0] in rooms | {"tests"} and "/" in name]
    assert [
        name
        for name in named
        if name not in EXAMPLES and not any((folder / name).exists() for folder in (package, project_root))
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_functions_exist(page: str, project_root: Path) -> None:
    package = project_root / "tvmbuild"
    rooms = {path.name for path in package.iterdir() if path.is_dir()}
    rooms |= {path.name for path in (package / "compiler").iterdir() if path.is_dir()}
    text = (project_root / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for name in _list_names(text):
        parts = name.split(".")
        if parts[0] not in rooms or "/" in name or len(parts) < 2:
            continue
        inside = package / "compiler" if not (package / parts[0]).is_dir() else package
        cut = next((i for i in range(len(parts), 0, -1) if inside.joinpath(*parts[:i]).with_suffix(".py").is_file()), 0)
        assert cut or inside.joinpath(*parts).is_dir(), f"{page}: there is no module of {name}"
        code = inside.joinpath(*parts[:cut]).with_suffix(".py").read_text(encoding="utf-8") if cut else ""
        for each in parts[cut:]:
            assert re.search(rf"(def|class) {each}\b", code), f"{page}: {name}: there is no {each}"
