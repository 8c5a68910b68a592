"""The state of a machine that affects a latency, as a value. Imports no slow module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BUSY_SHARE = 0.05
"""The share of the cores' time above which other programs make a measurement doubtful."""


@dataclass(frozen=True)
class MachineState:
    """The state of a machine that affects a latency. A field is None if the system does not provide it."""

    cpu: str
    cores: int
    """The number of cores that the measuring process could use."""
    governor: str | None = None
    load: float | None = None
    """The load average of the last minute when the timing began."""
    others: float | None = None
    """The share of those cores' time that other programs and other machines of the host took during the timing."""
    temperature_c: float | None = None
    """The temperature of the hottest core at the end of the timing."""

    @property
    def busy(self) -> str | None:
        """Return a warning if other programs disturbed the timing, or None if they did not or it is not known."""
        if self.others is None or self.others <= BUSY_SHARE:
            return None
        return f"the machine was busy: other programs took {self.others:.0%} of the cores' time during the timing"

    @property
    def name(self) -> str:
        """Return the description that two machines must share for their latencies to be compared."""
        return f"{self.cpu}, {self.cores} cores"


def read_machine(data: Mapping[str, Any]) -> MachineState:
    """Return the machine state from the JSON value of its `asdict`."""
    return MachineState(**data)


def find_peak_mb(status: str) -> float | None:
    """Return the peak resident memory in MiB from the text of /proc/PID/status, or None if the text lacks it."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None
