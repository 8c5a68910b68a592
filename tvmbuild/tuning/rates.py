"""The time that searching a Task takes on this machine. This module imports no tvm.

Each search adds its times to `build/tuning-rates.json`. Before the first search, the rates of a usual core are assumed.
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
"""The core seconds for each wanted candidate of a CPU's Task, by the most expensive word of the Task's name.

The source is `docs/notebook/by-hand.md` ("Minutes of tuning"). A Task that runs out of candidates early takes less time
for each.
"""
OTHERS = 0.08
"""The core seconds for each wanted candidate of all other Tasks. They only move or change single elements and have few
candidates.
"""
TIMING = 0.03
"""The seconds of timing one candidate, which more cores do not shorten."""
LOOP_S = 0.0107
"""The seconds that `_time_loop` takes on the machine where USUAL was measured."""
MEASURED_SPREAD, USUAL_SPREAD = 1.5, 2.0
"""The range around an estimated time, as factors: for measured rates, and for those of USUAL."""
_MOST = 10**9
MAX_TRIALS = 5000
"""If more trials than this are known for a word, they are halved before a search is added, so that older searches count
less.
"""


@dataclass(frozen=True)
class Seconds:
    """The range, in seconds, of a time that is not known exactly."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.low + other.low, self.high + other.high)

    def at_most(self, limit: float) -> Seconds:
        """Return the range of the time of work that is stopped after ``limit`` seconds."""
        return Seconds(min(self.low, limit), min(self.high, limit))

    @property
    def middle(self) -> float:
        """The geometric mean of both ends, in seconds."""
        return math.sqrt(self.low * self.high)


NO_TIME = Seconds()


def add_seconds(parts: Iterable[Seconds | None]) -> Seconds | None:
    """Return the sum of the ranges, or None if one of them is None (unknown)."""
    total = NO_TIME
    for part in parts:
        if part is None:
            return None
        total += part
    return total


@dataclass(frozen=True)
class Spent:
    """The cost of searching one kind of Task: the number of wanted trials, and the wall seconds."""

    trials: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.trials + other.trials, self.seconds + other.seconds)


@dataclass(frozen=True)
class Rates:
    """The cost of this machine's searches for one kind of target, by the most expensive word of a Task's name."""

    usual: Mapping[str, float] = field(default_factory=dict)
    """The assumed wall seconds of a trial for operators with too few measurements. Empty if unknown."""
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def estimate(self, name: str, trials: int) -> Seconds | None:
        """Return the expected time of searching a Task of that name, or None if no rate is known."""
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
    """The facts that decide where candidates are timed. TuneStep and Job provide them."""

    @property
    def kind(self) -> str:
        """The target's kind."""

    @property
    def device(self) -> DeviceSpec:
        """The device that times the candidates."""


def read_rates(layout: Layout, options: TimedTarget, cores: int) -> Rates:
    """Return the rates of searches for the target's kind at the place where its candidates are timed.

    ``cores`` of this machine build candidates. If this machine times them but has measured nothing yet, a short loop
    estimates its speed.
    """
    spent = _read(layout.tuning_rates).get(place_of(options), {})
    if not _is_usual(options):
        return Rates(spent=spent)
    # The time spent here already shows how slow the machine is; no loop need be timed.
    slowness = 1.0 if spent else _measure_slowness()
    share = slowness * (1 / cores + TIMING / USUAL["conv2d"])
    return Rates({word: seconds * share for word, seconds in {**USUAL, "": OTHERS}.items()}, spent)


def add_rates(layout: Layout, options: TimedTarget, spent: Mapping[str, Spent]) -> None:
    """Add the cost of a search to the recorded rates. The keys of ``spent`` are `find_word` of the Tasks' names.

    Raises OSError if the file cannot be written.
    """
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
    """Return the most expensive word of a Task's name, or an empty string if USUAL has none of its words.

    The word of `pad_conv2d_add_relu` is `conv2d`.
    """
    return max((word for word in name.split("_") if word in USUAL), key=USUAL.__getitem__, default="")


def _is_usual(options: TimedTarget) -> bool:
    return device_kind(options.device).has_usual_rates(options.kind)


def place_of(options: TimedTarget) -> str:
    """Return the name of the place where a target's candidates are timed. All searches there share their rates."""
    return device_kind(options.device).name_place(options.device, options.kind)


def _spread(seconds: float, factor: float) -> Seconds:
    return Seconds(seconds / factor, seconds * factor)


def _measure_slowness() -> float:
    """Return the time of a short arithmetic loop here, relative to the machine where USUAL was measured."""
    return min(_time_loop() for _ in range(3)) / LOOP_S


def _time_loop() -> float:
    start, value = time.thread_time(), 0  # time stolen by other processes is not slowness
    for number in range(200_000):
        value = (value * 31 + number) & 0xFFFF
    return time.thread_time() - start


def _read(path: Path) -> dict[str, dict[str, Spent]]:
    """Return place → word → cost from the file, or an empty dict for an invalid file, as an estimate must not fail."""
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
