"""The joint run of a tune step's searches.

The next batch belongs to the Task with the largest expected gain for its price. It is built while another batch is
timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tvm.s_tir.meta_schedule.database import TuningRecord

from tvmbuild.base.specs import TuneOptions
from tvmbuild.devices.candidates import Timing
from tvmbuild.replay.traces import dump_trace
from tvmbuild.tuning.built_libraries import Shelf
from tvmbuild.tuning.candidate_pool import CandidatePool, Measurement, Timed, wait_for_library
from tvmbuild.tuning.cores import Cores
from tvmbuild.tuning.scheduler import choose
from tvmbuild.tuning.task_search import TaskSearch

WORTH_REPEATING = 1.5
"""A candidate slower than the best by more than this factor gets only one sample."""
RETIMING = Timing(number=1, repeat=3, min_repeat_ms=20)
CARD_RETIMING = Timing(number=1, repeat=3, min_repeat_ms=4)
"""The samples of the careful timing on a GPU. They are shorter than on a CPU because the GPU's clock is steady and no
other program runs on it.
"""
RETIMING_ROUNDS = 3


@dataclass(frozen=True)
class Batch:
    """One measured batch: the candidates that a search proposed, and their results."""

    search: TaskSearch
    candidates: tuple[Any, ...]
    timed: tuple[Timed, ...]
    seconds: float
    """The wall time of proposing, building, timing and learning, in seconds."""
    phases: Mapping[str, float]
    """The seconds of the phases `search`, `build`, `time` and `learn`. Their sum may exceed ``seconds`` if two batches
    are in progress at once.
    """

    @property
    def errors(self) -> tuple[str, ...]:
        """The reasons why candidates failed."""
        return tuple(item.error for item in self.timed if item.error)


@dataclass
class _Flight:
    """A batch that is being built or timed."""

    search: TaskSearch
    candidates: list[Any]
    measurement: Future[Measurement]
    started: float
    searching: float


class Listener(Protocol):
    """A receiver of measured candidates."""

    def journal(self, search: TaskSearch, candidate: Any, timed: Timed) -> None:
        """Record a candidate as soon as it is timed. Called from another thread."""


def run_searches(
    searches: Sequence[TaskSearch], pool: CandidatePool, cores: Cores, options: TuneOptions, listener: Listener
) -> Iterator[Batch]:
    """Yield measured batches until every search is over or all shares are used up.

    The caller may stop iterating earlier. If a search ends early, the other searches get the rest of its share. If
    timing and building use different cores, one batch is proposed and built while a batch of another Task is timed.
    """
    depth, landed = 2 if cores.overlap else 1, time.monotonic()
    flights: list[_Flight] = []
    while True:
        while len(flights) < depth and (search := _next(searches, flights)) is not None:
            started = time.monotonic()
            candidates = search.propose(_count_allowed(searches, search))
            if candidates:
                watch = _Watch(search, options, listener)
                searching = time.monotonic() - started
                measurement = pool.measure(candidates, watch.timing, watch.see)
                flights.append(_Flight(search, candidates, measurement, started, searching))
        if not flights:
            return
        batch = _land(flights.pop(0), landed)
        landed = time.monotonic()
        yield batch


def time_again(pool: CandidatePool, records: Sequence[TuningRecord], shelf: Shelf) -> list[float | None]:
    """Return each record's median time in seconds, or None for a record that does not run here.

    The records are timed in turns, RETIMING_ROUNDS times, because a single short timing picks lucky candidates. A
    record's library comes from the ``shelf``, or is built if the shelf lacks it. The shelf is empty afterwards.
    """
    candidates = [record.as_measure_candidate() for record in records]
    libraries = [shelf.find(dump_trace(record)) for record in records]
    missing = [index for index, library in enumerate(libraries) if library is None]
    built = pool.build([candidates[index] for index in missing])
    for index, future in zip(missing, built, strict=True):
        libraries[index] = wait_for_library(future)[0]
    samples: list[list[float]] = [[] for _ in candidates]
    timing = CARD_RETIMING if pool.on_gpu else RETIMING
    for _ in range(RETIMING_ROUNDS):
        for candidate, library, found in zip(candidates, libraries, samples, strict=True):
            if library is not None:
                found.extend(pool.time(library, candidate.args_info, timing).samples)
    for library in libraries:
        if library is not None:
            Path(library).unlink(missing_ok=True)
    shelf.clear()
    return [statistics.median(found) if found else None for found in samples]


def drop_wrong(pool: CandidatePool, records: Sequence[TuningRecord], seconds: list[float | None]) -> list[str]:
    """Set the fastest record's time to None while its outputs are wrong. Return the differences that were found.

    Outputs are wrong if they differ from the outputs of the record's Task without a schedule. The check stops at the
    first record with correct outputs.
    """
    faults = []
    for index in sorted(range(len(seconds)), key=lambda index: seconds[index] or 0.0):
        if seconds[index] is None:
            continue
        fault = pool.find_fault(records[index].as_measure_candidate(), records[index].workload.mod)
        if fault is None:
            break
        seconds[index] = None
        faults.append(fault)
    return faults


def _land(flight: _Flight, landed: float) -> Batch:
    """Wait for the batch, let its search learn from the results, and return the batch.

    ``landed`` is the monotonic time when the previous batch ended. Time before it belongs to that batch.
    """
    done = flight.measurement.result()
    start, began = time.monotonic(), max(flight.started, landed)
    flight.search.accept(flight.candidates, done.timed, start - began)
    end = time.monotonic()
    phases = {"search": flight.searching, "build": done.building, "time": done.timing, "learn": end - start}
    return Batch(flight.search, tuple(flight.candidates), done.timed, end - began, phases)


def _next(searches: Sequence[TaskSearch], flights: Sequence[_Flight]) -> TaskSearch | None:
    flying = {id(flight.search) for flight in flights}
    free = [
        search
        for search in searches
        if not search.over and id(search) not in flying and _count_allowed(searches, search) > 0
    ]
    return free[choose([search.curve for search in free])] if free else None


def _count_allowed(searches: Sequence[TaskSearch], search: TaskSearch) -> int:
    """Return how many more candidates ``search`` may propose.

    This is the unused part of all shares, less the parts that other running searches still hold.
    """
    left = sum(each.allowance.share - each.proposed for each in searches)
    others = [each for each in searches if each is not search and not each.over]
    return left - sum(max(0, each.allowance.share - each.proposed) for each in others)


class _Watch:
    """The observer of a batch, which decides how carefully to time its next candidate, from the best time so far."""

    def __init__(self, search: TaskSearch, options: TuneOptions, listener: Listener) -> None:
        self._search, self._options, self._listener = search, options, listener
        self._best = search.curve.best

    def timing(self) -> Timing:
        options = self._options
        return Timing(options.number, options.repeat, options.min_repeat_ms, self._best * WORTH_REPEATING)

    def see(self, candidate: Any, timed: Timed, library: str | None) -> None:
        self._best = min(self._best, timed.seconds)
        self._listener.journal(self._search, candidate, timed)
        if library is not None:
            self._search.shelve(candidate, timed, library)
