"""The search of one Task: MetaSchedule proposes candidates and gets their measurements back."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

from tvmbuild.base.specs import TuneOptions
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.tasks import Task
from tvmbuild.replay.traces import dump_trace
from tvmbuild.tuning.built_libraries import Shelf
from tvmbuild.tuning.candidate_pool import Timed
from tvmbuild.tuning.cost_model import BoostedTrees
from tvmbuild.tuning.scheduler import Curve
from tvmbuild.tuning.space import generate_space, list_known, make_space

BATCH = 32
FIRST = 16
"""The number of candidates in a Task's first turn. The rest of its batch waits until every Task has had a turn. As far
as possible, the candidates are the schedules of the rules, so that a tuned Task is no slower than an untuned one.
"""
CARD_FIRST = BATCH + 1
"""The number of candidates in a Task's first turn on a GPU. This turn includes candidates of the search, after the
rules' schedules.
"""
TINY = 2
"""A draw of at most this many candidates means a space without choices: another draw would take seconds and find
nothing.
"""
POPULATION, CARD_POPULATION = 128, 64
GENERATIONS = 1
DRAWS = 3
"""The number of draws that are tried if TVM fails on one."""


@dataclass(frozen=True)
class Start:
    """The knowledge about a Task before its search. ``known`` are records of this target and machine."""

    known: tuple[TuningRecord, ...] = ()
    seeds: tuple[TuningRecord, ...] = ()
    """Records of other targets or machines, which are measured first. Their times do not count here."""
    searched: int = 0
    """The number of candidates measured before. It is part of the random seed, so that a resumed search does not draw
    the same candidates again.
    """
    has_rules: bool = False
    """True if the rules' schedules have been measured."""


@dataclass(frozen=True)
class SearchSetup:
    """The setup that all searches of a tune step share. ``threads`` is the number of threads of the search itself."""

    target: tvm.target.Target
    options: TuneOptions
    cost_model: Any
    threads: int
    deadline: float = math.inf
    """The end of the search, in seconds of the monotonic clock."""


def make_cost_model(options: TuneOptions, threads: int) -> Any:
    """Return the cost model that ``options`` names."""
    if options.cost_model == "random":
        return meta_schedule.cost_model.RandomModel(seed=options.seed)
    return BoostedTrees(threads, options.seed)


@dataclass(frozen=True)
class Allowance:
    """The number of candidates that a Task may have: its ``share``, and up to ``most`` if other Tasks leave theirs."""

    share: int
    most: int
    only_rules: bool = False
    """True if only the rules' schedules are measured, because the search itself is over."""


class TaskSearch:
    """The search of one Task. `propose` and `accept` are called in turns."""

    def __init__(self, task: Task, setup: SearchSetup, allowance: Allowance, start: Start = Start()) -> None:
        self.task = task
        self.allowance = allowance
        self.curve = Curve(task.weight, min((_seconds(record) for record in start.known), default=float("inf")))
        self.proposed = 0
        self.exhausted = False
        self.shelf = Shelf()
        self._on_gpu = is_gpu(setup.target)
        self._setup = setup
        self._known = start.known
        self.has_rules = start.has_rules
        """True if the rules' schedules have been measured, or are being measured."""
        self._random_state = _random_state(task.key, setup.options.seed + start.searched)
        self._waiting = [record.as_measure_candidate() for record in start.seeds]
        """The candidates still to be proposed. None may be lost, because TVM takes each candidate that it has returned
        as measured.
        """
        self._started = False
        self._context: Any = None
        """MetaSchedule's search. It is None before the search starts, or if the rules' schedules are the only
        candidates.
        """
        self._database = MemoryDatabase()
        self._workload = self._database.commit_workload(task.mod)

    @property
    def target(self) -> tvm.target.Target:
        """The target for which the candidates are built."""
        return self._setup.target

    @property
    def over(self) -> bool:
        """Return whether no more candidates are wanted, or none are left."""
        if self.allowance.only_rules:
            return self.has_rules
        return self.exhausted or self.settled or self.is_late or self.proposed >= self.allowance.most

    @property
    def is_late(self) -> bool:
        """Return whether the search is out of time. A Task without a proposed candidate still gets its first ones."""
        return self.proposed > 0 and time.monotonic() > self._setup.deadline

    @property
    def settled(self) -> bool:
        """Return whether the last candidates gained too little to continue."""
        patience = self._setup.options.patience
        return patience is not None and self.curve.stale >= patience

    def propose(self, limit: int) -> list[Any]:
        """Return at most ``limit`` MeasureCandidates, or an empty list if none are left.

        Call `accept` with their results before the next call.
        """
        if not self._started and not self.over:
            self._start()
        first = CARD_FIRST if self._on_gpu else FIRST
        limit = min(limit, self.allowance.most - self.proposed, BATCH if self.proposed else first)
        wants_more = not self._waiting or (self._on_gpu and not self.proposed and len(self._waiting) < limit)
        if wants_more and self._context is not None:
            new = self._draw()
            self._waiting += new
            # In a space without choices, another draw takes seconds and finds nothing.
            self.exhausted = len(new) <= TINY and self.proposed + len(self._waiting) < self.allowance.most
        candidates, self._waiting = self._waiting[:limit], self._waiting[limit:]
        self.exhausted |= self._context is None and not self._waiting
        self.proposed += len(candidates)
        return candidates

    def accept(self, candidates: Sequence[Any], timed: Sequence[Timed], seconds: float) -> None:
        """Learn from the results of the proposed ``candidates``.

        ``seconds`` is the time that proposing and measuring them took.
        """
        if self._context is not None:
            results = [RunnerResult(list(item.samples) or None, item.error) for item in timed]
            self._context.notify_runner_results(candidates, results)
            self._setup.cost_model.update(self._context, candidates, results)
        for candidate, item in zip(candidates, timed, strict=True):
            if item.samples and _has_choices(candidate.sch.trace):
                self._database.commit_tuning_record(self.record(candidate, item))
        self.curve.add([item.seconds for item in timed], seconds)

    def record(self, candidate: Any, timed: Timed) -> TuningRecord:
        """Return the TuningRecord of a measured candidate."""
        return TuningRecord(
            candidate.sch.trace, self._workload, list(timed.samples), self._setup.target, candidate.args_info
        )

    def shelve(self, candidate: Any, timed: Timed, library: str) -> None:
        """Keep the candidate's library while the candidate is one of the fastest. Remove it if the candidate failed."""
        if timed.samples:
            self.shelf.put(lambda: dump_trace(self.record(candidate, timed)), timed.seconds, library)
        else:
            Path(library).unlink(missing_ok=True)

    def _start(self) -> None:
        setup, self._started = self._setup, True
        if not self.has_rules:
            self.has_rules = True
            self._waiting = [*self._list_rules(), *self._waiting]
        if self.allowance.only_rules:
            return
        for record in self._known:
            if _has_choices(record.trace):
                self._database.commit_tuning_record(record)
        context = meta_schedule.TuneContext(
            self.task.mod,
            target=setup.target,
            space_generator=make_space(setup.target),
            search_strategy=EvolutionarySearch(
                population_size=CARD_POPULATION if self._on_gpu else POPULATION,
                init_min_unmeasured=1,
                genetic_num_iters=GENERATIONS,
            ),
            task_name=self.task.name,
            rand_state=self._random_state,
            num_threads=setup.threads,
        )
        space = generate_space(context)
        if space is None:
            return
        context.pre_tuning(self.allowance.most, BATCH, space, self._database, setup.cost_model)
        self._context = context

    def _draw(self) -> list[Any]:
        """Return MetaSchedule's next proposals, or an empty list if TVM fails on each of DRAWS draws.

        TVM fails if a drawn factor becomes an extent that is not an int32. The next draw is a different one. The log
        reports each failure.
        """
        for _ in range(DRAWS):
            try:
                return list(self._context.generate_measure_candidates() or ())
            except RuntimeError as error:  # noqa: PERF203 - its threads raise this class
                print(f"{self.task.name}: TVM's search failed on what it drew: {str(error).strip().splitlines()[-1]}")
        return []

    def _list_rules(self) -> list[Any]:
        """Return candidates with the rules' schedules that are not records yet."""
        limit = self.allowance.most if self.allowance.only_rules else FIRST
        known = {dump_trace(record) for record in self._known}
        candidates = list_known(self.task.mod, self._setup.target, limit)
        return [each for each in candidates if dump_trace(self.record(each, Timed())) not in known]


def _has_choices(trace: Any) -> bool:
    """Return whether the evolutionary search can use the schedule. It takes only schedules of its own rules."""
    return bool(trace.decisions)


def _random_state(key: str, seed: int) -> int:
    return 1 + (int(key, 16) + seed) % (2**31 - 2)


def _seconds(record: TuningRecord) -> float:
    return min(float(seconds) for seconds in record.run_secs)
