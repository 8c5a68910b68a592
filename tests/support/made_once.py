"""What several tests build alike, built once in a run of pytest, whichever of its worker processes comes first."""

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
    """Make the run's folder, and say whether this process did: then it is to end the run, too."""
    if FOLDER in os.environ:
        return False
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="tvmbuild-tests-")
    return True


def end_run() -> None:
    """Remove the folder."""
    shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


def make_once(key: object, make: Callable[[Path], object]) -> Path:
    """Return the folder that ``make`` filled for this key. Only to be read: others have the same."""
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
