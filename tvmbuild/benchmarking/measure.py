"""Timing of several worker processes in turns. Each is warmed up until its times are steady; only one runs at once."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tvmbuild.base.pace import Pace
from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.statistics import Samples
from tvmbuild.devices.device import Watching
from tvmbuild.devices.machine_state import MachineState

BUDGET_S = 20.0
"""The time for all samples of one contender, in seconds. A slow contender takes fewer, but at least MIN_SAMPLES."""
MIN_SAMPLES = 5
ROUNDS = 20
STRIDES = (1, 2, 4)
"""The values of `Turns.stride`. Each one divides the next, so any two contenders share the rounds of the slower one."""
WARM_UP_S = 0.3
WARM_UP_LIMIT_S = 5.0
STEADY_GROUPS = 3
STEADY_WITHIN = 0.03
"""A contender is warm if the medians of the last STEADY_GROUPS groups of calls differ by at most this share."""
GROUP_MS = 50.0
REWARM_S = 0.02
"""The duration of uncounted calls after a pause, in seconds, because caches are cold then and threads sleep."""
SLOW_MS = 50.0
"""A contender whose calls take longer, in ms, makes no uncounted calls: cold caches hardly change its times."""


class Timed(Protocol):
    """A process whose calls can be timed: a `Worker`, or a `FrameWorker`, whose calls take a frame."""

    def warm_up(self, seconds: float) -> float:
        """Make calls for about ``seconds`` and return the time of the last one in ms."""

    def time(self, number: int, repeat: int) -> list[float]:
        """Return ``repeat`` samples in ms, each the mean time of ``number`` calls."""

    def pause(self) -> None:
        """Stop the process, so that it takes no CPU time."""

    def resume(self) -> None:
        """Let the stopped process continue."""


@dataclass(frozen=True)
class WarmUp:
    """The result of a contender's warm-up."""

    call_ms: float
    """The median time of a call at the end of the warm-up, in ms."""
    steady: bool
    """True if the times of the calls stopped changing within WARM_UP_LIMIT_S."""


@dataclass(frozen=True)
class Turns:
    """The rounds in which a contender takes part, and the number of its samples in each."""

    stride: int
    """The contender takes part in every ``stride``-th round: 1 means in all rounds."""
    samples: int
    """The number of samples that the contender takes in each of its rounds."""


@dataclass(frozen=True)
class Measured:
    """The result of timing contenders in turns."""

    samples: Mapping[str, Samples]
    """Name of the contender → its samples."""
    unsteady: tuple[str, ...]
    """The names of the contenders whose call times still changed when their warm-up ended."""
    machine: MachineState


def measure_in_turns(workers: Mapping[str, Timed], number: int, repeat: int, watch: Watching) -> Measured:
    """Time the workers in ROUNDS rounds, in turns within each round.

    A worker takes about ``repeat`` samples of ``number`` calls each, fewer if its calls are slow. All workers must be
    paused, and are paused again afterwards. The caller must hold the device's lock and create ``watch`` just before.
    """
    warm = {}
    for name, worker in workers.items():
        report_progress(f"warming up {name}")
        worker.resume()
        warm[name] = warm_up(worker)
        worker.pause()
    turns = {name: plan_turns(count_samples(warm[name].call_ms, number, repeat)) for name in workers}
    taken: dict[str, dict[int, tuple[float, ...]]] = {name: {} for name in workers}
    pace = Pace("timing", ROUNDS, "rounds")
    for index in range(ROUNDS):
        pace.report(index)
        for name in list_turns(turns, index):
            quick = warm[name].call_ms < SLOW_MS
            taken[name][index] = _time_round(workers[name], number, turns[name].samples, rewarm=quick)
    samples = {name: Samples(tuple(rounds), tuple(rounds.values()), number) for name, rounds in taken.items()}
    return Measured(samples, tuple(name for name in workers if not warm[name].steady), watch.read())


def list_turns(turns: Mapping[str, Turns], index: int) -> list[str]:
    """Return the names of the contenders of round ``index`` in the order of their turns.

    The order is reversed from time to time, so that a drift of the machine's speed affects all contenders alike. It is
    kept for as many rounds as the largest stride: a contender in every fourth round must also meet both orders.
    """
    slowest = max(each.stride for each in turns.values())
    names = [name for name in turns if index % turns[name].stride == 0]
    return names[:: 1 if (index // slowest) % 2 == 0 else -1]


def _time_round(worker: Timed, number: int, samples: int, *, rewarm: bool) -> tuple[float, ...]:
    worker.resume()
    if rewarm:
        worker.warm_up(REWARM_S)
    times = tuple(worker.time(number, samples))
    worker.pause()
    return times


def warm_up(worker: Timed) -> WarmUp:
    """Run the worker's model until the times of the calls are steady, or for about WARM_UP_LIMIT_S seconds."""
    end = time.monotonic() + WARM_UP_LIMIT_S
    first = worker.warm_up(WARM_UP_S)
    calls = min(1000, max(1, math.ceil(GROUP_MS / max(first, 1e-6))))
    medians: list[float] = []
    while True:
        medians.append(statistics.median(worker.time(1, calls)))
        if is_steady(medians):
            return WarmUp(medians[-1], steady=True)
        if time.monotonic() >= end and len(medians) >= STEADY_GROUPS:
            return WarmUp(medians[-1], steady=False)


def is_steady(medians: Sequence[float]) -> bool:
    """Return whether the last STEADY_GROUPS medians differ by at most STEADY_WITHIN. Fewer medians are not steady."""
    recent = medians[-STEADY_GROUPS:]
    return len(recent) == STEADY_GROUPS and max(recent) <= min(recent) * (1 + STEADY_WITHIN)


def count_samples(call_ms: float, number: int, repeat: int) -> int:
    """Return how many samples of ``number`` calls fit into BUDGET_S: at most ``repeat``, but at least MIN_SAMPLES."""
    fitting = math.floor(BUDGET_S * 1000 / max(call_ms * number, 1e-6))
    return max(MIN_SAMPLES, min(repeat, fitting))


def plan_turns(count: int) -> Turns:
    """Return turns with at least ``count`` samples, evenly spread over the rounds: 5, 10, 20, 40, 60 and so on.

    For 5 samples the contender takes part in every fourth round.
    """
    stride = max(stride for stride in STRIDES if ROUNDS // stride >= min(count, ROUNDS))
    return Turns(stride, math.ceil(count / (ROUNDS // stride)))
