"""The energy of a board by its power sensors, for example the INA3221 of a Jetson, as Linux shows them (hwmon)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tvmbuild.devices.system_files import read_number, read_text

HWMON = Path("/sys/class/hwmon")
"""The folder where Linux shows sensors."""
_CHIPS = "ina"
"""The beginning of the names of chips that measure power."""
_WHOLE = "_IN"
"""The end of the label of a sensor that measures all others, too: a Jetson's `VDD_IN`, `POM_5V_IN`."""
_UNUSED = "NC"
_CHANNELS = (1, 2, 3)
"""The channels of one chip. Higher numbers of an INA3221 are the voltages at its resistors, and sums."""
_EVERY_S = 0.1
"""The time between two readings; the chips average over a few milliseconds to a second."""


class Reading(NamedTuple):
    """The power of a board at one time."""

    seconds: float
    """The time of the monotonic clock."""
    watts: float


class PowerSensors:
    """A meter of the energy of a whole board, which a thread adds up from its construction until it is read.

    It is untried on a Jetson: its tests read files like those that the documentation of Linux describes.
    """

    def __init__(self, folder: Path = HWMON) -> None:
        self._sensors = list_sensors(folder)
        self._readings: list[Reading] = []
        self._is_whole = bool(self._sensors)
        self._ended = threading.Event()
        self._take()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self._sensors:
            self._thread.start()

    def read(self) -> float | None:
        """Return the joules since construction, or None if the board has no sensors or one fails. End the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._take()
        return add_up(self._readings) if self._is_whole else None

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._take()

    def _take(self) -> None:
        found = [read_watts(sensor) for sensor in self._sensors]
        watts = [each for each in found if each is not None]
        self._is_whole &= len(watts) == len(found)
        self._readings.append(Reading(time.monotonic(), sum(watts)))


class Sensor(NamedTuple):
    """A channel of a chip."""

    folder: Path
    channel: int
    label: str


def list_sensors(folder: Path) -> tuple[Sensor, ...]:
    """Return the sensors that together measure the board: the one of its input, else all."""
    chips = [path for path in sorted(folder.glob("hwmon*")) if read_text(path / "name").startswith(_CHIPS)]
    found = [Sensor(chip, channel, read_text(chip / f"in{channel}_label")) for chip in chips for channel in _CHANNELS]
    used = [each for each in found if each.label != _UNUSED and read_watts(each) is not None]
    whole = [each for each in used if each.label.endswith(_WHOLE)]
    return tuple(whole or used)


def read_watts(sensor: Sensor) -> float | None:
    """Return the power that a sensor measures, itself or as voltage times current, or None if it tells neither."""
    chip, channel = sensor.folder, sensor.channel
    microwatts = read_number(chip / f"power{channel}_input")
    if microwatts is not None:
        return microwatts / 1e6
    millivolts, milliamperes = (read_number(chip / f"{kind}{channel}_input") for kind in ("in", "curr"))
    return None if millivolts is None or milliamperes is None else millivolts * milliamperes / 1e6


def add_up(readings: Sequence[Reading]) -> float:
    """Return the joules between the first and the last reading; power changes evenly between two of them."""
    return sum((b.seconds - a.seconds) * (a.watts + b.watts) / 2 for a, b in pairwise(readings))
