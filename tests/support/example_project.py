"""A copy of an example, beside the files that it shares with tvmbuild's own project, built by real doit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def copy_example(project_root: Path, to: Path, name: str) -> Path:
    """Return the copy's folder; its `build` is empty, whatever the original's holds."""
    (to / "models").symlink_to(project_root / "models")
    shutil.copytree(project_root / "records", to / "records")  # a search on this class of CPU writes there
    (to / "locks").mkdir(mode=0o700)
    ignored = shutil.ignore_patterns("build", "__pycache__")
    copy = to / "examples" / name
    shutil.copytree(project_root / "examples" / name, copy, symlinks=True, ignore=ignored)
    return copy


def run_in_example(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in the folder; the output combines both streams."""
    environment = dict(os.environ, XDG_RUNTIME_DIR=str(copy.parents[1] / "locks"))
    return subprocess.run(
        [sys.executable, *command],
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def build_example(copy: Path, *arguments: str) -> str:
    """Build it without measuring anything and return doit's output."""
    done = run_in_example(copy, "-m", "tvmbuild", *arguments, "tune=never")
    assert done.returncode == 0, done.stdout
    return done.stdout
