"""Other processes, which may end between two looks at them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil


def find_below(
    process: psutil.Process, suits: Callable[[psutil.Process], bool] = lambda _each: True, recursive: bool = True
) -> list[psutil.Process]:
    """Return the processes that ``process`` has started and that suit, without those that have ended meanwhile."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in process.children(recursive):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                if suits(each):
                    found.append(each)
    return found


def is_gone(process: psutil.Process) -> bool:
    """Return whether the process has ended, even if nobody has read its exit code."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def is_gone_by_number(pid: int) -> bool:
    """Return the same for a process's number, which another process may have taken since."""
    try:
        return is_gone(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True
