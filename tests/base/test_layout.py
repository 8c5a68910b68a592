"""A user missing from /etc/passwd, without HOME, as in a container, although TVM and platformdirs ask for a home."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tvmbuild.base.layout import cache_dir, ensure_home


@pytest.fixture(autouse=True)
def without_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that replaces the runtime folder."""

    def refuse(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    tmp_path.chmod(stat.S_IRWXU)
    monkeypatch.setattr(pwd, "getpwuid", refuse)
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_who_has_no_home_gets_a_private_one(without_home: Path) -> None:
    assert cache_dir().name == "tvmbuild"
    assert Path.home().name == "home"
    assert Path.home().parent.name == "tvmbuild"
    assert Path.home().is_relative_to(without_home) or "runtime-" in str(Path.home())


def test_a_home_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nonexistent"))
    ensure_home()
    assert os.environ["HOME"] == str(tmp_path / "nonexistent")


def test_a_project_is_planned_without_a_home(tmp_path: Path) -> None:
    code = (
        "import pwd, sys\n"
        "def refuse(number): raise KeyError(number)\n"
        "pwd.getpwuid = refuse\n"
        "from tvmbuild.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    project = tmp_path / "project"  # the runtime folder beside it is called tvmbuild, as the module
    project.mkdir()
    for arguments in (["init"], ["plan"]):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
