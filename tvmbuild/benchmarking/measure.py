"""Time several worker processes in turns: warmed up until steady, one running while the others are stopped."""

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
"""Time that one contender may take for its samples; a slow one gets fewer, but at least MIN_SAMPLES."""
MIN_SAMPLES = 5
ROUNDS = 20
STRIDES = (1, 2, 4)
"""A contender takes part in every round, every second or every fourth: any two share the slower one's rounds."""
WARM_UP_S = 0.3
WARM_UP_LIMIT_S = 5.0
STEADY_GROUPS = 3
STEADY_WITHIN = 0.03
"""Warm: the medians of the last STEADY_GROUPS groups of calls differ by no more than this share."""
GROUP_MS = 50.0
REWARM_S = 0.02
"""After a stop, caches are cold and threads asleep: calls for this long are not counted."""
SLOW_MS = 50.0
"""Calls that take longer do not notice a cold cache."""


@dataclass(frozen=True)
class WarmUp:
    """How a contender's warming up ended."""

    call_ms: float
    steady: bool


@dataclass(frozen=True)
class Turns:
    """When a contender is timed, and how often each time."""

    stride: int
    samples: int
    """In each of its rounds."""


@dataclass(frozen=True)
class Measured:
    """What timing in turns gave, by the contender's name."""

    samples: Mapping[str, Samples]
    unsteady: tuple[str, ...]
    """Those whose calls were still changing when warming up was given up."""
    machine: MachineState


def measure_in_turns(workers: Mapping[str, Worker], number: int, repeat: int, watch: Watching) -> Measured:
    """Time the workers, all of them paused, in rounds; paused they are left. The caller holds the device.

    ``watch`` is the device's, made now.
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
    """Return who is timed in that round, in order: back and forth, so that a drift of the machine meets all alike.

    The order turns where all take part, for a slow one that comes every fourth round must meet both orders too.
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
    """Return how many samples fit the time budget: ``repeat``, or fewer for a slow model, never under MIN_SAMPLES."""
    fitting = math.floor(BUDGET_S * 1000 / max(call_ms * number, 1e-6))
    return max(MIN_SAMPLES, min(repeat, fitting))


def plan_turns(count: int) -> Turns:
    """Spread at least ``count`` samples evenly: 5 (every fourth round), 10, 20, 40, 60 and so on."""
    stride = max(stride for stride in STRIDES if ROUNDS // stride >= min(count, ROUNDS))
    return Turns(stride, math.ceil(count / (ROUNDS // stride)))
