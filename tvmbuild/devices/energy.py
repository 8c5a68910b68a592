"""The energy that this machine's CPU and its CUDA card take, or the whole board, where the system tells it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tvmbuild.devices.power_sensors import HWMON, PowerSensors
from tvmbuild.devices.system_files import read_number, read_text

RAPL = Path("/sys/class/powercap")
"""The folder where Linux shows the counters of Intel's and AMD's CPUs. Most systems let only root read them."""


class EnergyMeter:
    """A meter of the energy of all programs. It counts from its construction.

    It needs no library: a card's energy is known only if pynvml can be imported. A machine without counters of its CPU
    may have sensors of its power, which measure the card, too.
    """

    def __init__(self, *, card: bool, folder: Path = RAPL, sensors: Path = HWMON) -> None:
        self._packages = _list_packages(folder)
        self._sensors = None if self._packages else PowerSensors(sensors)
        self._card = _open_card() if card else None
        self._wants_card = card
        self._start = self._read_cpus()
        self._card_start = _read_card(self._card)

    def read(self) -> float | None:
        """Return the joules since construction, or None if a part of the machine that works does not tell its own."""
        if self._sensors is not None:
            return self._sensors.read()
        end = self._read_cpus()
        if self._start is None or end is None:
            return None
        total = 0.0
        for before, after, path in zip(self._start, end, self._packages, strict=True):
            passed = after - before
            if passed < 0:  # the counter restarted
                passed += read_number(path / "max_energy_range_uj") or 0
            total += passed / 1e6
        if not self._wants_card:
            return total
        card_end = _read_card(self._card)
        if self._card_start is None or card_end is None:
            return None
        return total + card_end - self._card_start

    def _read_cpus(self) -> list[int] | None:
        found = [read_number(path / "energy_uj") for path in self._packages]
        values = [each for each in found if each is not None]
        return values if values and len(values) == len(found) else None


def _list_packages(folder: Path) -> list[Path]:
    """Return the folders of the counters of whole CPUs, without those of their parts."""
    try:
        found = sorted(path for path in folder.iterdir() if path.name.count(":") == 1)
    except OSError:
        return []
    return [path for path in found if read_text(path / "name").startswith("package")]


def _open_card() -> tuple[Any, Any] | None:
    """Return pynvml and its handle of the first card, or None if the library or the card is missing."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        library.nvmlInit()
        return library, library.nvmlDeviceGetHandleByIndex(0)
    except library.NVMLError:
        return None


def _read_card(card: tuple[Any, Any] | None) -> float | None:
    if card is None:
        return None
    library, handle = card
    try:
        return float(library.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000
    except library.NVMLError:
        return None
