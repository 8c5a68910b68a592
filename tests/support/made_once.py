"""Files that several tests need, built once in a run of pytest by the first of its worker processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER = "TESTS_MADE_ONCE"
"""The environment variable with the run's folder; pytest's workers inherit it."""


def begin_run() -> bool:
    """Make the run's folder; return whether this process made it, which then must end the run too."""
    if FOLDER in os.environ:
        return False
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="tvmbuild-tests-")
    return True


def end_run() -> None:
    """Remove the folder."""
    shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


def make_once(key: object, make: Callable[[Path], object]) -> Path:
    """Return the folder that ``make`` filled for this key; others share it, so it must only be read."""
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    folder = Path(os.environ[FOLDER]) / name
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            begun = folder.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir(mode=0o700)
            make(begun)
            begun.rename(folder)
    return folder
