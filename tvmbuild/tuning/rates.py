"""How long searching a Task takes on this machine. No tvm here.

A search says so afterwards, in `build/tuning-rates.json`. Before the first one there is what a usual core needs.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tvmbuild.base.device_specs import DeviceSpec
from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.devices.table import device_kind

FORMAT = 1
USUAL = {
    "softmax": 0.8,
    "conv2d": 0.62,
    "conv1d": 0.62,
    "mean": 0.4,
    "sum": 0.4,
    "avg": 0.4,
    "matmul": 0.35,
    "dense": 0.35,
    "max": 0.3,
    "min": 0.3,
    "winograd": 0.2,
}
"""Core seconds that a wanted trial of a CPU's Task takes, by the word of its name that takes most.

`docs/how-to/plan.md` says where from. A Task that runs out of candidates early takes less for each."""
OTHERS = 0.08
"""Of Tasks that only move or change single elements: they have few candidates."""
TIMING = 0.03
"""Seconds of timing a candidate, which more cores make no shorter."""
LOOP_S = 0.0107
"""What `_measure_slowness` times, on the machine of USUAL."""
MEASURED_SPREAD, USUAL_SPREAD = 1.5, 2.0
"""A time may be so many times shorter or longer than said."""
_MOST = 10**9
MAX_TRIALS = 5000
"""Older searches count less and less: when so many trials are known they are halved first."""


@dataclass(frozen=True)
class Seconds:
    """A time that is not known exactly."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.low + other.low, self.high + other.high)

    def at_most(self, limit: float) -> Seconds:
        """Return the time of what is ended after ``limit``."""
        return Seconds(min(self.low, limit), min(self.high, limit))

    @property
    def middle(self) -> float:
        """Return the geometric mean of both ends."""
        return math.sqrt(self.low * self.high)


NO_TIME = Seconds()


def add_seconds(parts: Iterable[Seconds | None]) -> Seconds | None:
    """Return the sum, None when a part is not known."""
    total = NO_TIME
    for part in parts:
        if part is None:
            return None
        total += part
    return total


@dataclass(frozen=True)
class Spent:
    """What searches of one kind of Task took: the trials that they were to have, and wall seconds."""

    trials: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.trials + other.trials, self.seconds + other.seconds)


@dataclass(frozen=True)
class Rates:
    """What this machine's searches for one kind of target took, by the word of a Task's name that takes most."""

    usual: Mapping[str, float] = field(default_factory=dict)
    """Wall seconds a trial where nothing was measured; empty: nobody knows."""
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def estimate(self, name: str, trials: int) -> Seconds | None:
        """Return the time of a Task of that name with so many trials; None without any history."""
        word = find_word(name)
        known = self.spent.get(word)
        if known is not None and known.trials >= trials / 2:
            return _spread(known.seconds / known.trials * trials, MEASURED_SPREAD)
        every = sum(self.spent.values(), Spent())
        if not self.usual:
            return _spread(every.seconds / every.trials * trials, USUAL_SPREAD) if every.trials else None
        expected = sum(self.usual.get(each, 0.0) * spent.trials for each, spent in self.spent.items())
        slowness = every.seconds / expected if expected else 1.0
        return _spread(self.usual[word] * trials * slowness, USUAL_SPREAD)


class TimedTarget(Protocol):
    """What says where candidates are timed: a tune step's options, or a Job."""

    @property
    def kind(self) -> str:
        """Return the target's kind."""

    @property
    def device(self) -> DeviceSpec:
        """Return what candidates run on."""


def read_rates(layout: Layout, options: TimedTarget, cores: int) -> Rates:
    """Return the rates of the target's kind, where its candidates are timed; ``cores`` of this machine build them."""
    spent = _read(layout.tuning_rates).get(place_of(options), {})
    if not _is_usual(options):
        return Rates(spent=spent)
    # What was spent here says how slow the machine is, and no loop need be timed.
    slowness = 1.0 if spent else _measure_slowness()
    share = slowness * (1 / cores + TIMING / USUAL["conv2d"])
    return Rates({word: seconds * share for word, seconds in {**USUAL, "": OTHERS}.items()}, spent)


def add_rates(layout: Layout, options: TimedTarget, spent: Mapping[str, Spent]) -> None:
    """Write down what a search took, by `find_word` of its Tasks' names."""
    known, where = _read(layout.tuning_rates), place_of(options)
    here = dict(known.get(where, {}))
    for word, each in spent.items():
        before = here.get(word, Spent())
        if before.trials > MAX_TRIALS:
            before = Spent(before.trials // 2, before.seconds / 2)
        here[word] = before + each
    rows = {
        place: {word: [each.trials, round(each.seconds, 2)] for word, each in sorted(words.items())}
        for place, words in sorted({**known, where: here}.items())
    }
    write_json(layout.tuning_rates, {"format": FORMAT, "rates": rows})


def find_word(name: str) -> str:
    """Return the word of a Task's name that takes most: `conv2d` of `pad_conv2d_add_relu`; empty: none of USUAL."""
    return max((word for word in name.split("_") if word in USUAL), key=USUAL.__getitem__, default="")


def _is_usual(options: TimedTarget) -> bool:
    return device_kind(options.device).has_usual_rates(options.kind)


def place_of(options: TimedTarget) -> str:
    """Return where a target's candidates are timed, whose rates are one."""
    return device_kind(options.device).name_place(options.device, options.kind)


def _spread(seconds: float, factor: float) -> Seconds:
    return Seconds(seconds / factor, seconds * factor)


def _measure_slowness() -> float:
    """Return how many times longer than on the machine of USUAL a little arithmetic takes here."""
    return min(_time_loop() for _ in range(3)) / LOOP_S


def _time_loop() -> float:
    start, value = time.thread_time(), 0  # what else runs here is no slowness
    for number in range(200_000):
        value = (value * 31 + number) & 0xFFFF
    return time.thread_time() - start


def _read(path: Path) -> dict[str, dict[str, Spent]]:
    """Return what the file says; nothing of one that says nothing sensible: a price is no place to complain."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        rates = data["rates"] if data["format"] == FORMAT else {}
        return {
            str(where): {word: Spent(*each) for word, each in words.items() if word in (*USUAL, "") and _is_sane(*each)}
            for where, words in rates.items()
            if str(where).isascii()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def _is_sane(trials: object, seconds: object) -> bool:
    return isinstance(trials, int) and isinstance(seconds, float | int) and 0 < trials < _MOST and 0 < seconds < _MOST
