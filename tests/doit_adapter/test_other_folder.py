"""The option `tvmbuild -d DIR`: the project of another folder; doit itself wants `-f DIR/dodo.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from doit_project import DoitProject, write_project

from tvmbuild.doit_adapter.main import take_folder


@pytest.mark.parametrize(
    ("arguments", "kept", "folder"),
    [
        (["list"], ["list"], None),
        (["-d", "net", "list"], ["list"], "net"),
        (["list", "--dir", "net", "--all"], ["list", "--all"], "net"),
        (["--dir=net"], [], "net"),
        (["-dnet", "tune=never"], ["tune=never"], "net"),
        (["-f", "x/dodo.py", "-d", "net"], ["-f", "x/dodo.py", "-d", "net"], None),
        (["-k", "-d", "net"], ["-k", "-d", "net"], None),
        (["clean", "--dry-run"], ["clean", "--dry-run"], None),
        (["-d"], [], None),
    ],
)
def test_the_folder_is_taken_out_of_the_arguments(arguments: list[str], kept: list[str], folder: str | None) -> None:
    assert take_folder(arguments) == (kept, None if folder is None else Path(folder))


@pytest.fixture
def project(tmp_path: Path, digits: Path) -> DoitProject:
    return write_project(tmp_path, digits)


def run(project: DoitProject, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tvmbuild", *arguments],
        cwd=folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_project_is_found_from_elsewhere(project: DoitProject, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wanted = project.tvmbuild("list", "--all").output
    assert "simplify:digits" in wanted
    (project.root / "inner").mkdir()
    for folder in ("../project", "../project/inner"):
        done = run(project, elsewhere, "list", "--all", "-d", folder)
        assert (done.returncode, done.stdout) == (0, wanted), done.stderr
    missing = run(project, elsewhere, "-d", "missing", "list")
    assert missing.returncode == 1
    assert missing.stderr == "error: -d missing: No such file or directory\n  hint: name the project's folder.\n"
