"""Drivers of CUDA: the architectures that each knows, and the machine code and PTX that it loads.

A driver loads the machine code that any compiler of the same or an earlier major version has written; NVIDIA
calls this minor version compatibility. PTX loads only if the driver is at least of the PTX's version.
https://docs.nvidia.com/deploy/cuda-compatibility/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Version = tuple[int, int]
"""A version of CUDA, or of PTX: (12, 2) is 12.2."""

DEFAULT: Version = (12, 0)
"""The oldest driver for a target that names none. JetPack 6, and desktops' drivers since December 2022, load its code.
"""
OLDEST: Version = (11, 4)
"""The oldest driver that tvmbuild's runtime uses: that of JetPack 5."""
_LAST_MAJOR = 13
_LAST_MINOR = {11: 8, 12: 9}
"""Major version of CUDA → its last minor version. That of 13 is not known yet."""
_FIRST = {70: (9, 0), 72: (9, 2), 75: (10, 0), 80: (11, 0), 86: (11, 1), 87: (11, 4), 89: (11, 8), 90: (11, 8)} | {
    100: (12, 8),
    101: (12, 8),
    120: (12, 8),
    103: (12, 9),
    121: (12, 9),
    88: (13, 0),
    110: (13, 0),
}
"""Compute capability → the first CUDA that knows it."""
_LAST = {72: OLDEST}
"""Compute capability → the last CUDA of its boards' drivers: JetPack 5 is Xavier's last."""
_TOO_OLD = {53, 62}
"""The compute capabilities of Nano, TX1 and TX2, whose last JetPack is 4."""
TEGRA = _TOO_OLD | {72, 87, 101, 110}
"""The compute capabilities of Jetsons. NVIDIA promises that machine code for one runs there only."""
JETPACK_4 = "JetPack 4, with glibc 2.27, runs no package: TVM's libraries need 2.28, tvmbuild CUDA 11.4"
_DROPPED = 75
"""The first compute capability that CUDA 13 compiles for."""
_PTX = {11: 70, 12: 80, 13: 90}
"""Major version of CUDA → the PTX version of its minor version 0, ten times; CUDA's later ones add their number."""


def read_version(text: str) -> Version:
    """Return the version that a text such as `12.2` names."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def show_version(version: Version) -> str:
    """Return the version as a text: `12.2`."""
    return f"{version[0]}.{version[1]}"


def read_arch(arch: str) -> int:
    """Return the number of an architecture, 87 for `sm_87` and 90 for `sm_90a`, or 0 if the text names none."""
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    return int(found[1]) if found else 0


def first_driver(arch: str) -> Version:
    """Return the first CUDA whose driver knows the architecture, or (0, 0) if tvmbuild does not know the first."""
    return _FIRST.get(read_arch(arch), (0, 0))


def choose_driver(attributes: Mapping[str, Any]) -> Version:
    """Return the oldest driver that must load the code of a target with these attributes.

    It is the target's `driver`, or else `DEFAULT`, or the nearest for its `arch`.
    """
    if "driver" in attributes:
        return read_version(str(attributes["driver"]))
    arch = str(attributes.get("arch", ""))
    return min(max(DEFAULT, first_driver(arch)), _LAST.get(read_arch(arch), (_LAST_MAJOR, 99)))


def ptx_version(driver: Version, arch: str) -> Version:
    """Return the PTX version that the driver reads, or a later one if PTX knows the architecture only since then."""
    number = _PTX[driver[0]] + driver[1] if driver != (12, 6) else 85
    if (12, 7) <= driver < (13, 0):
        number -= 1  # 12.5 and 12.6 have the same
    needed = first_driver(arch)
    return max((number // 10, number % 10), ptx_version(needed, "") if needed > driver else (0, 0))


def find_mistake(data: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the mistake in a CUDA target's `driver`, `arch` and `ptx`, or None: (key, fault, expected value)."""
    arch = str(data.get("arch", ""))
    if read_arch(arch) in _TOO_OLD:
        return "arch", f"{arch} boards have at most JetPack 4; {JETPACK_4}", "sm_72 (Xavier) or a later board's"
    if data.get("ptx") and arch[-1:] in {"a", "f"}:
        return "ptx", f"code for {arch} runs on no later card", f"arch: {arch[:-1]}, or no ptx"
    if "driver" not in data:
        return None
    problem = _find_problem(arch, choose_driver(data))
    return None if problem is None else ("driver", *problem)


def _find_problem(arch: str, driver: Version) -> tuple[str, str] | None:
    """Return the fault of a driver and the expected value, or None."""
    first, name = first_driver(arch), show_version(driver)
    if driver < OLDEST:
        return f"no runtime uses a driver of CUDA {name}", '"11.4" or later'
    if driver[0] > _LAST_MAJOR or driver[1] > _LAST_MINOR.get(driver[0], driver[1]):
        return f"tvmbuild knows no CUDA {name}", '"11.4" to "11.8", "12.0" to "12.9", "13.0" or later'
    if driver < first:
        return f"a driver of CUDA {name} does not know {arch}", f'"{show_version(first)}" or later, or another arch'
    if driver[0] >= _LAST_MAJOR and 0 < read_arch(arch) < _DROPPED:
        return f"CUDA 13 compiles nothing for {arch}", '"12.9" or earlier'
    return None
