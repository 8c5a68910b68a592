"""Timing of several worker processes in turns: warmed up until steady, one running while the others are stopped."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmbuild.base.pace import Pace
from tvmbuild.base.progress import report_progress
from tvmbuild.benchmarking.statistics import Samples
from tvmbuild.devices.device import Watching
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.model_worker import Worker

BUDGET_S = 20.0
"""The time for the samples of one contender, in seconds. A slow one gets fewer samples, but at least MIN_SAMPLES."""
MIN_SAMPLES = 5
ROUNDS = 20
STRIDES = (1, 2, 4)
"""A contender takes part in every round, every second or every fourth: any two share the slower one's rounds."""
WARM_UP_S = 0.3
WARM_UP_LIMIT_S = 5.0
STEADY_GROUPS = 3
STEADY_WITHIN = 0.03
"""A contender is warm if the medians of the last STEADY_GROUPS groups of calls differ by at most this share."""
GROUP_MS = 50.0
REWARM_S = 0.02
"""The time in seconds of uncounted calls after a stop, when caches are cold and threads sleep."""
SLOW_MS = 50.0
"""The time of a call in ms above which a cold cache does not matter."""


@dataclass(frozen=True)
class WarmUp:
    """The result of a contender's warm-up."""

    call_ms: float
    steady: bool


@dataclass(frozen=True)
class Turns:
    """The rounds of a contender, and its samples in each."""

    stride: int
    samples: int
    """The number of samples in each of its rounds."""


@dataclass(frozen=True)
class Measured:
    """The result of timing in turns, by the contender's name."""

    samples: Mapping[str, Samples]
    unsteady: tuple[str, ...]
    """The contenders whose calls were still changing when their warm-up ended."""
    machine: MachineState


def measure_in_turns(workers: Mapping[str, Worker], number: int, repeat: int, watch: Watching) -> Measured:
    """Time the workers in rounds. All are paused before and after. The caller holds the device.

    ``watch`` is the device's, made just before.
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
    """Return the contenders of a round in order: back and forth, so that a drift of the machine affects all alike.

    The order changes after the slowest one's stride, because a contender in every fourth round must also meet both
    orders.
    """
    slowest = max(each.stride for each in turns.values())
    names = [name for name in turns if index % turns[name].stride == 0]
    return names[:: 1 if (index // slowest) % 2 == 0 else -1]


def _time_round(worker: Worker, number: int, samples: int, *, rewarm: bool) -> tuple[float, ...]:
    worker.resume()
    if rewarm:
        worker.warm_up(REWARM_S)
    times = tuple(worker.time(number, samples))
    worker.pause()
    return times


def warm_up(worker: Worker) -> WarmUp:
    """Run until the calls take the same time, or for about WARM_UP_LIMIT_S."""
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
    """Return whether the last groups of calls agree."""
    recent = medians[-STEADY_GROUPS:]
    return len(recent) == STEADY_GROUPS and max(recent) <= min(recent) * (1 + STEADY_WITHIN)


def count_samples(call_ms: float, number: int, repeat: int) -> int:
    """Return the number of samples that fit the time budget: at most ``repeat``, at least MIN_SAMPLES."""
    fitting = math.floor(BUDGET_S * 1000 / max(call_ms * number, 1e-6))
    return max(MIN_SAMPLES, min(repeat, fitting))


def plan_turns(count: int) -> Turns:
    """Spread at least ``count`` samples evenly: 5 (every fourth round), 10, 20, 40, 60 and so on."""
    stride = max(stride for stride in STRIDES if ROUNDS // stride >= min(count, ROUNDS))
    return Turns(stride, math.ceil(count / (ROUNDS // stride)))
