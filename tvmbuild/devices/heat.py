"""The signs that heat slows this machine's CPU down, as Linux shows them."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.devices.system_files import read_number

CPUS = Path("/sys/devices/system/cpu")


class HeatWatch:
    """A counter of the times that heat slowed a core down. It counts from its construction."""

    def __init__(self, folder: Path = CPUS) -> None:
        self._folder = folder
        self._start = self._count()

    def count_throttled(self) -> int | None:
        """Return the number since construction, or None if the system does not count."""
        end = self._count()
        return None if self._start is None or end is None else max(0, end - self._start)

    def read_clock(self) -> float | None:
        """Return the fastest core's clock rate over the highest that it has, or None if the system does not say."""
        shares = []
        for now in self._folder.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
            current, highest = read_number(now), read_number(now.with_name("cpuinfo_max_freq"))
            if current and highest:
                shares.append(current / highest)
        return round(max(shares), 3) if shares else None

    def _count(self) -> int | None:
        counts = [read_number(path) for path in self._folder.glob("cpu[0-9]*/thermal_throttle/core_throttle_count")]
        known = [each for each in counts if each is not None]
        return sum(known) if known else None
