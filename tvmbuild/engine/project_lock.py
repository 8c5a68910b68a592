"""One doit at a time in a project: the second waits and says for whom."""

from __future__ import annotations

import fcntl
import os
import sys
from io import TextIOWrapper
from pathlib import Path

from tvmbuild.base.layout import LOCK_NAME
from tvmbuild.errors import TvmbuildError

_held: dict[Path, TextIOWrapper] = {}


def hold_project_lock(build: Path) -> None:
    """Take the build folder's lock until this process ends; waits for another's. Taking it again does nothing.

    Worker processes that doit forks inherit it. The kernel drops it with the last of them, kill -9 included.
    """
    path = build / LOCK_NAME
    if path in _held:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("a+")
    except OSError as error:
        raise TvmbuildError(
            f"cannot write to {build}: {error.strerror}", "Make the folder writable, or move the project."
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        print(f"waiting for another doit in this project (process {handle.read().strip() or '?'})", file=sys.stderr)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
    except OSError:
        pass  # a full disk: the lock holds all the same, only the pid is unknown
    _held[path] = handle
