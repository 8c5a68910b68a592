"""What state a board without Python is in while something is timed there, from the files of its kernel."""

from __future__ import annotations

import time
from collections.abc import Callable

from tvmbuild.base.host_cpu import find_cpu_name
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.watch import GOVERNOR

Read = Callable[[str], str]
"""Returns the text of a file there; empty where it is not."""
_TICKS_S = 100.0
"""Linux counts in these, whatever the machine."""
_BUSY = (0, 1, 2, 5, 6, 7)
"""Of a line of /proc/stat: user, nice, system, irq, softirq, steal."""


class FilesWatch:
    """Counts the CPU time that others than the process which reads take from its making on."""

    def __init__(self, read_file: Read, machine: str) -> None:
        self._read_file = read_file
        self._machine = machine
        self._start = self._count()

    def read(self) -> MachineState:
        """Return the board's state since then."""
        wall, busy, own = (end - start for end, start in zip(self._count(), self._start, strict=True))
        lines = self._read_file("/proc/stat").splitlines()
        cores = max(1, sum(line.startswith("cpu") for line in lines) - 1)
        load, heat = self._read_file("/proc/loadavg").split(), self._read_file("/sys/class/thermal/thermal_zone0/temp")
        return MachineState(
            cpu=find_cpu_name(self._read_file("/proc/cpuinfo")) or self._machine,
            cores=cores,
            governor=self._read_file(str(GOVERNOR)).strip() or None,
            load=float(load[0]) if load else None,
            others=round(min(1.0, max(0.0, busy - own) / (wall * cores)), 4) if busy > 0 else None,
            temperature_c=round(int(heat) / 1000, 1) if heat.strip() else None,
        )

    def _count(self) -> tuple[float, float, float]:
        """Return the wall clock's seconds, the busy ones of all cores, and the process's own."""
        fields = self._read_file("/proc/stat").partition("\n")[0].split()[1:]
        busy = sum(int(fields[index]) for index in _BUSY if index < len(fields)) / _TICKS_S
        own = self._read_file("/proc/self/stat").rpartition(")")[2].split()[11:13]
        return time.monotonic(), busy, sum(map(int, own)) / _TICKS_S
