"""A project's lock is held until its process ends, and that end prints nothing."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tvmbuild.base.layout import LOCK_NAME

HOLD = """
import os, sys
from pathlib import Path
from tvmbuild.engine.project_lock import hold_project_lock
hold_project_lock(Path(sys.argv[1]))
hold_project_lock(Path(sys.argv[1]))
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


def test_the_lock_is_dropped_by_the_process_end_without_a_complaint(tmp_path: Path) -> None:
    build, pipe = tmp_path / "build", subprocess.PIPE
    command = [sys.executable, "-W", "always", "-c", HOLD, str(build)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        owner = process.stdout.readline()
        with (build / LOCK_NAME).open() as handle:
            assert handle.read() == owner
            assert not try_to_lock(handle.fileno())
            assert process.communicate("\n") == ("", "")
            assert try_to_lock(handle.fileno())


def try_to_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
