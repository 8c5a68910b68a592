"""What a latency depends on besides the program, as a value. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BUSY_SHARE = 0.05
"""Other programs that take more than this share of the cores' time make a measurement doubtful."""


@dataclass(frozen=True)
class MachineState:
    """What a latency depends on besides the program. None: the system does not tell."""

    cpu: str
    cores: int
    """Cores that the measuring process could use."""
    governor: str | None = None
    load: float | None = None
    """Load average of the last minute when the timing began."""
    others: float | None = None
    """Share of those cores' time that other programs, and other machines of the same host, took during the timing."""
    temperature_c: float | None = None
    """Of the hottest core when it ended."""

    @property
    def busy(self) -> str | None:
        """Return the warning that the machine was not quiet; None: it was, or it is not known."""
        if self.others is None or self.others <= BUSY_SHARE:
            return None
        return f"the machine was busy: other programs took {self.others:.0%} of the cores' time during the timing"

    @property
    def name(self) -> str:
        """Return what must be equal for two latencies to be compared."""
        return f"{self.cpu}, {self.cores} cores"


def read_machine(data: Mapping[str, Any]) -> MachineState:
    """Return what `asdict` made a JSON value of."""
    return MachineState(**data)


def find_peak_mb(status: str) -> float | None:
    """Return the high-water mark of the resident memory that /proc/PID/status tells; None where it does not."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None
