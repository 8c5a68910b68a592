"""The CPU of this machine as the kernel describes it.

This module uses the standard library only, because packages import it on the machines that run them.
"""

from __future__ import annotations

import platform
from pathlib import Path

from tvmbuild.base.cores import find_quota, usable_cores

CPUINFO = Path("/proc/cpuinfo")
_FLAGS = ("flags", "Features")
"""The keys on x86 and on ARM."""
_X86 = ("x86_64", "i386")
_NAMES = ("model name", "Model")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386"}


def cpu_flags() -> frozenset[str]:
    """Return the kernel's names of this CPU's instruction sets, or an empty set if the system does not provide them.

    Under an emulator, the file may be that of another machine, which lists its own under another key.
    """
    wanted = _FLAGS[machine_of(platform.machine()) not in _X86]
    return frozenset(next((value for key, value in _entries(_read_text()) if key == wanted), "").split())


def cpu_name() -> str:
    """Return the model name of this machine's CPU, or its architecture if the kernel gives no name."""
    return find_cpu_name(_read_text()) or platform.processor() or platform.machine()


def find_cpu_name(cpuinfo: str) -> str:
    """Return the CPU's model name from the text of a /proc/cpuinfo, or an empty text if it has none."""
    name = next((value for key, value in _entries(cpuinfo) if key in _NAMES), "")
    return " ".join(name.split())


def machine_of(triple: str) -> str:
    """Return the machine that an LLVM triple begins with, under one name for all spellings.

    For example, `amd64-linux-gnu` and the bare machine name `x86_64` both give `x86_64`.
    """
    name = triple.partition("-")[0].lower()
    return _MACHINES.get(name, name)


def available_cores() -> int:
    """Return the number of cores that this process may use: its affinity, and the quota of its control groups.

    A quota is rounded down, because threads on a part of a core wait for each other, but to no less than 1.
    """
    quota = find_quota()
    cores = len(usable_cores())
    return cores if quota is None else min(cores, max(1, int(quota)))


def cpu_identity() -> str:
    """Return a text that describes this CPU, different for CPUs that cannot run the same code."""
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
