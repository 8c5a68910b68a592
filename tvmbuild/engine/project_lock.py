"""The lock that lets one doit at a time run in a project. A second doit waits and names the first."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path

from tvmbuild.base.layout import LOCK_NAME
from tvmbuild.errors import TvmbuildError

_held: set[Path] = set()
"""The paths of the locks that this process holds. A lock's descriptor is closed only by the end of the process."""


def hold_project_lock(build: Path) -> None:
    """Take the build folder's lock until this process ends. If another doit holds it, wait.

    Taking it again does nothing. Worker processes that doit forks inherit the lock. The kernel drops it with the last
    of these processes, also after kill -9. Raises TvmbuildError if the folder cannot be written.
    """
    path = build / LOCK_NAME
    if path in _held:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise TvmbuildError(
            f"cannot write to {build}: {error.strerror}", "Make the folder writable, or move the project."
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode().strip() or "?"
        print(f"waiting for another doit in this project (process {owner})", file=sys.stderr)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):  # on a full disk the lock holds nevertheless, only the pid is unknown
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    _held.add(path)
