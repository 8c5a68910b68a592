"""The state of a machine during a timing, as a value. This module imports no slow module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BUSY_SHARE = 0.05
"""The share of the cores' time that other programs may take. A larger share makes a measurement doubtful."""


@dataclass(frozen=True)
class MachineState:
    """The facts about a machine that affect a latency. A field is None if the system does not provide the fact."""

    cpu: str
    """The model name of the CPU."""
    cores: int
    """The number of cores that the measuring process could use."""
    governor: str | None = None
    """The kernel's governor of the CPU's clock rate, for example `performance`."""
    load: float | None = None
    """The system's load average of the last minute, at the beginning of the timing."""
    others: float | None = None
    """The share of these cores' time that other programs, or other virtual machines of the host, took in the timing."""
    temperature_c: float | None = None
    """The temperature of the hottest core at the end of the timing."""

    @property
    def busy(self) -> str | None:
        """Return a warning if other programs took more than BUSY_SHARE. None if they did not, or if it is unknown."""
        if self.others is None or self.others <= BUSY_SHARE:
            return None
        return f"the machine was busy: other programs took {self.others:.0%} of the cores' time during the timing"

    @property
    def name(self) -> str:
        """Return the CPU and the number of cores. Latencies are compared only between machines of the same name."""
        return f"{self.cpu}, {self.cores} cores"


def read_machine(data: Mapping[str, Any]) -> MachineState:
    """Build a MachineState from the JSON value of its `asdict`."""
    return MachineState(**data)
