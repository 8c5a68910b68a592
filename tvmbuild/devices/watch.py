"""Observation of this machine's state during a timing."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.devices.machine_state import MachineState

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal")


class Watch:
    """A counter of the CPU time that other programs take on this machine. It counts from its construction."""

    def __init__(self, own: Sequence[int] = ()) -> None:
        """Begin to count. ``own`` has the ids of processes that, like this one, do not count as other programs.

        These processes must live until :meth:`read`.
        """
        self._own = (os.getpid(), *own)
        self._cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        self._load = _read_load()
        self._start = (time.monotonic(), self._busy_s(), self._own_s())

    def read(self) -> MachineState:
        """Return this machine's state, with the share of CPU time that other programs took since construction."""
        now = (time.monotonic(), self._busy_s(), self._own_s())
        wall, busy, own = (end - start for end, start in zip(now, self._start, strict=True))
        cores = len(self._cpus) if self._cpus else (os.cpu_count() or 1)
        # A system that does not count CPU time (some containers) shows less than this process used.
        known = now[1] > 0 and wall > 0 and busy >= 0.5 * own
        others = min(1.0, max(0.0, busy - own) / (wall * cores)) if known else None
        return MachineState(
            cpu=cpu_name(),
            cores=cores,
            governor=_read_governor(),
            load=None if self._load is None else round(self._load, 2),
            others=None if others is None else round(others, 4),
            temperature_c=_read_temperature(),
        )

    def _busy_s(self) -> float:
        per_cpu = psutil.cpu_times(percpu=True)
        chosen = per_cpu if self._cpus is None else [per_cpu[cpu] for cpu in self._cpus if cpu < len(per_cpu)]
        return sum(float(getattr(times, name, 0.0)) for times in chosen for name in _BUSY)

    def _own_s(self) -> float:
        total = 0.0
        for pid in self._own:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                total += times.user + times.system
        return total


def _read_governor() -> str | None:
    try:
        return GOVERNOR.read_text().strip() or None
    except OSError:
        return None


def _read_load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _read_temperature() -> float | None:
    read = getattr(psutil, "sensors_temperatures", None)
    if read is None:
        return None
    found: dict[str, list[float]] = {chip: [entry.current for entry in entries] for chip, entries in read().items()}
    values = [value for chip in _SENSORS for value in found.get(chip, ())]
    return round(max(values), 1) if values else None
