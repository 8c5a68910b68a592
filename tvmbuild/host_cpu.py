"""The CPU of this machine as the kernel tells it. Standard library only: packages ask it where they run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_FLAGS = ("flags", "Features")
_NAMES = ("model name", "Model")


def cpu_flags() -> frozenset[str]:
    """Return the kernel's names of this CPU's instruction sets; empty where the system does not tell."""
    return frozenset(next((value for key, value in _entries() if key in _FLAGS), "").split())


def cpu_name() -> str:
    """Return the CPU's model name, or at least its architecture."""
    name = next((value for key, value in _entries() if key in _NAMES), "")
    return " ".join(name.split()) or platform.processor() or platform.machine()


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_identity() -> str:
    """Return a text that differs between CPUs on which not the same code can run."""
    told = {f"{key}: {value}" for key, value in _entries() if key in (*_FLAGS, "model name", "CPU part")}
    return "\n".join(sorted(told)) or platform.processor()


def _entries() -> list[tuple[str, str]]:
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in pairs]
