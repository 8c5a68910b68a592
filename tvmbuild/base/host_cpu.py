"""The CPU of this machine as the kernel tells it. Standard library only: packages ask it where they run."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_FLAGS = ("flags", "Features")
_NAMES = ("model name", "Model")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386"}


def cpu_flags() -> frozenset[str]:
    """Return the kernel's names of this CPU's instruction sets; empty where the system does not tell."""
    return frozenset(next((value for key, value in _entries(_read_text()) if key in _FLAGS), "").split())


def cpu_name() -> str:
    """Return the CPU's model name, or at least its architecture."""
    return find_cpu_name(_read_text()) or platform.processor() or platform.machine()


def find_cpu_name(cpuinfo: str) -> str:
    """Return the CPU's model name of the text of a /proc/cpuinfo; empty where it has none."""
    name = next((value for key, value in _entries(cpuinfo) if key in _NAMES), "")
    return " ".join(name.split())


def machine_of(triple: str) -> str:
    """Return the machine of LLVM's triple as platform.machine() calls it on Linux; of what that says, the same."""
    name = triple.partition("-")[0].lower()
    return _MACHINES.get(name, name)


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_identity() -> str:
    """Return a text that differs between CPUs on which not the same code can run."""
    told = {f"{key}: {value}" for key, value in _entries(_read_text()) if key in (*_FLAGS, "model name", "CPU part")}
    return "\n".join(sorted(told)) or platform.processor()


def _entries(cpuinfo: str) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in cpuinfo.splitlines())
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def _read_text() -> str:
    try:
        return CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
