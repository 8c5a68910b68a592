"""The cores that this process may use: the quota of its control groups, and the speed of each core.

The C++ library reads the same files (`package/cpp/parts/cores.h`). Standard library only, as in `host_cpu`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

_CLOCKS_ALIKE = 1.2
"""Cores whose highest clocks differ by a smaller factor are of one cluster: x86 has favoured cores."""


def find_quota(root: Path = Path("/")) -> float | None:
    """Return how many cores' time the control groups of this process grant, or None if they set no limit.

    The least of `cpu.max` (version 2) and `cpu.cfs_quota_us` (version 1) counts, from the process's group up to the
    root of the mounted hierarchy. ``root`` is the folder that has `proc` and `sys`.
    """
    quotas = [quota for folder in _list_groups(root) if (quota := _read_quota(folder)) is not None]
    return min(quotas, default=None)


def sort_by_speed(cores: Collection[int], root: Path = Path("/")) -> list[list[int]]:
    """Return the cores in clusters of equal speed, the fastest cluster first.

    Linux tells the capacity of each core on ARM and RISC-V. Elsewhere, the highest clocks are compared. Cores of
    unknown speed are equal.
    """
    speeds = {core: _read_speed(root / f"sys/devices/system/cpu/cpu{core}") for core in sorted(cores)}
    clusters: list[list[int]] = []
    fastest: tuple[int, int] | None = None
    for core in sorted(cores, key=lambda core: (*(-speed for speed in speeds[core]), core)):
        capacity, clock = speeds[core]
        if fastest is None or capacity != fastest[0] or clock * _CLOCKS_ALIKE < fastest[1]:
            clusters.append([])
            fastest = speeds[core]
        clusters[-1].append(core)
    return [sorted(cluster) for cluster in clusters]


def pick_fastest(cores: Collection[int], count: int, root: Path = Path("/")) -> list[int]:
    """Return ``count`` of the cores, those of the fastest clusters."""
    return [core for cluster in sort_by_speed(cores, root) for core in cluster][:count]


def usable_cores() -> frozenset[int]:
    """Return the numbers of the cores on which the calling thread may run."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _read_speed(folder: Path) -> tuple[int, int]:
    """Return a core's capacity and, if Linux does not know the capacity, its highest clock in kHz. 0 is unknown."""
    capacity = _read_number(folder / "cpu_capacity")
    if capacity:
        return capacity, 0
    return 0, _read_number(folder / "cpufreq/cpuinfo_max_freq")


def _read_number(path: Path) -> int:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else 0


def _list_groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's CPU groups and of their ancestors."""
    inside = dict(_list_paths(root))
    for line in _read(root / "proc/self/mountinfo").splitlines():
        fields, _, after = line.partition(" - ")
        # 31 23 0:28 ROOT MOUNTPOINT OPTIONS … - TYPE SOURCE OPTIONS
        mounted, place = (_unescape(text) for text in fields.split()[3:5])
        kind, *options = after.split()
        version = {"cgroup2": 2, "cgroup": 1}.get(kind)
        if version is None or (version == 1 and "cpu" not in options[-1].split(",")) or version not in inside:
            continue
        top = root / place.lstrip("/")
        path = inside[version]
        # A container without its own namespace sees the whole path in /proc and its own group as the root.
        below = path[len(mounted) :] if mounted != "/" and f"{path}/".startswith(f"{mounted}/") else path
        if mounted != "/" and below == path:
            below = ""
        parts = [part for part in below.split("/") if part not in ("", "..")]
        yield from (top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _list_paths(root: Path) -> Iterator[tuple[int, str]]:
    """Yield the version of a hierarchy with CPUs, and the path of this process's group in it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield 2, path
        elif "cpu" in controllers.split(","):
            yield 1, path


def _read_quota(group: Path) -> float | None:
    limit, _, period = _read(group / "cpu.max").strip().partition(" ")
    if not limit:
        limit, period = (_read(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    if not limit.isdecimal() or not period.isdecimal() or int(period) == 0:  # max, or -1
        return None
    return int(limit) / int(period)


def _unescape(text: str) -> str:
    r"""Return a path of mountinfo, in which a space is `\040`."""
    for escaped, character in (("\\040", " "), ("\\011", "\t"), ("\\134", "\\")):
        text = text.replace(escaped, character)
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
