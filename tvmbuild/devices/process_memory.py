"""The resident memory of a process, as Linux tells it in /proc/PID/status. This module imports no slow module."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

_SELF = Path("/proc/self")
_RESET_PEAK = "5"


def find_peak_mb(status: str) -> float | None:
    """Return the peak resident memory in MiB from the text of /proc/PID/status, or None if the text lacks it."""
    peak = _read_sizes(status).get("VmHWM")
    return None if peak is None else peak / 2**20


def peak_memory_mb() -> float | None:
    """Return the peak resident memory of this process in MiB, or None if the system does not provide it.

    ru_maxrss cannot be used: it survives exec, so a child process starts with its parent's value.
    """
    try:
        return find_peak_mb(_read_status())
    except OSError:
        return None


def measure_call(call: Callable[[], object]) -> int | None:
    """Return how many bytes a model's first call adds to the peak of resident memory, without pages of files.

    The pages of files are weights and code, which stay mapped. A later call may find memory that an earlier one has
    left. None: this system does not tell.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed before
        (_SELF / "clear_refs").write_text(_RESET_PEAK)
        before = _read_sizes(_read_status())["RssAnon"]
        kept = call()
        after = _read_sizes(_read_status())
        del kept
        return max(0, after["VmHWM"] - after["RssFile"] - after["RssShmem"] - before)
    except (OSError, KeyError, AttributeError):  # other kernels and C libraries
        return None


def _read_status() -> str:
    return (_SELF / "status").read_text()


def _read_sizes(status: str) -> dict[str, int]:
    """Return the fields of a process's status that are sizes, in bytes."""
    fields = (line.split() for line in status.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if words[-1:] == ["kB"]}
