"""The wheel of this tree, installed in its own environment: a new project builds, far from the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.compiler, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Files that git has, so that no build folder of this checkout gets in.
    files = subprocess.run(["git", "ls-files", "-z"], cwd=project_root, capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if name.startswith(("tvmbuild/", "wheel_backend/")) or "/" not in name:
            (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "tree" / name).write_bytes((project_root / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(folder / "tree")]
    subprocess.run(command, check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_it_has_what_runs_of_the_package_and_nothing_else(wheel: Path, project_root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"tvmbuild"}
    ours = subprocess.run(["git", "ls-files", "tvmbuild"], cwd=project_root, capture_output=True, text=True, check=True)
    assert set(ours.stdout.split()) <= names


@pytest.mark.nights(2)
def test_a_new_project_builds_far_from_the_sources(wheel: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"XDG_RUNTIME_DIR": str(tmp_path / "locks"), "COLUMNS": "200"}
    (tmp_path / "locks").mkdir(mode=0o700)

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=tmp_path / "empty",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    (tmp_path / "empty").mkdir()
    programs = tmp_path / "venv" / "bin"
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(programs / "pip", "install", "--quiet", wheel)
    where = run(programs / "python", "-c", "import tvmbuild; print(tvmbuild.__file__)")
    assert where.startswith(str(tmp_path / "venv"))
    run(programs / "tvmbuild", "init")
    said = run(programs / "doit")
    assert "silero_vad" in said
    assert " failed" not in said
    assert "0 done" in run(programs / "doit")
