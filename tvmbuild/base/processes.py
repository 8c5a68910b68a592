"""Functions with which processes start child processes, end with their parent, and explain failures."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from tvmbuild.base.progress import follow_output
from tvmbuild.errors import TvmbuildError

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, even by kill -9.

    On other systems than Linux this does nothing. If the parent is dead already, the process exits with status 1.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def neutral_folder() -> TemporaryDirectory[str]:
    """Return an empty folder, removed when its context ends, in which to start ``python -m``.

    Python searches modules in its working folder first, and the project's folder may hold an ``onnx.py``.
    PYTHONSAFEPATH prevents that only from Python 3.11 on. Raises TvmbuildError if no temporary folder can be made.
    """
    try:
        return TemporaryDirectory(prefix="tvmbuild-empty-", ignore_cleanup_errors=True)
    except OSError as error:
        raise TvmbuildError(
            f"no temporary folder: {error.strerror or error}", "Make room in it, or set TMPDIR to another."
        ) from error


def explain_failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return the signal that ended the process, or else the last line of its standard error."""
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return (lines or ["no message"])[-1]


def follow_module(module: str, *arguments: Path | str, show: Callable[[str], None]) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module`` as `run_module` does, and pass its progress to ``show`` while it runs.

    The finished process's output has the other lines.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with neutral_folder() as folder, TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=complaints)
        with process:
            try:
                output = follow_output(process.stdout or (), show)
                lines = [f"{line}\n" for line, is_progress in output if not is_progress]
            except BaseException:
                process.kill()
                raise
        complaints.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, "".join(lines), complaints.read())


def run_module(module: str, *arguments: Path | str, timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module`` in an empty folder and return the finished process, whatever its exit status.

    Paths among the arguments must be absolute. Raises subprocess.TimeoutExpired.
    """
    command = [sys.executable, "-m", module, *map(str, arguments)]
    with neutral_folder() as folder:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
