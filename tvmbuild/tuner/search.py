"""Search one Task: MetaSchedule proposes candidates, the pool measures them, every batch is handed on at once."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch
from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

from tvmbuild.compiler.tasks import Task
from tvmbuild.records.traces import dump_trace
from tvmbuild.specs import TuneOptions
from tvmbuild.tuner.cost_model import BoostedTrees
from tvmbuild.tuner.pool import CandidatePool, Timed
from tvmbuild.tuner.worker import Timing

BATCH = 32
TINY = 2
"""A batch this small means a space without choices: asking again takes seconds and finds nothing."""
POPULATION = 128
GENERATIONS = 3
RETIMING = Timing(number=1, repeat=3, min_repeat_ms=20)
RETIMING_ROUNDS = 3
FAILED_SECONDS = 1e10


@dataclass(frozen=True)
class Measured:
    """One candidate that ran."""

    trace: str
    seconds: float


@dataclass(frozen=True)
class Batch:
    """What one round of a search measured. ``measured`` holds the candidates that ran."""

    candidates: int
    measured: tuple[Measured, ...]
    errors: tuple[str, ...] = ()


@dataclass
class Searcher:
    """All that the searches of one tune step share."""

    target: tvm.target.Target
    options: TuneOptions
    pool: CandidatePool
    cost_model: Any = None
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))

    def __post_init__(self) -> None:
        if self.cost_model is None:
            self.cost_model = (
                BoostedTrees(self.threads, self.options.seed)
                if self.options.cost_model == "xgb"
                else meta_schedule.cost_model.RandomModel(seed=self.options.seed)
            )

    def search(self, task: Task, trials: int, known: Sequence[TuningRecord]) -> Iterator[Batch]:
        """Yield batches until ``trials`` candidates are measured or nothing new is found (then fewer in all).

        ``known`` records seed the search.
        """
        database = MemoryDatabase()
        workload = database.commit_workload(task.mod)
        for record in known:
            database.commit_tuning_record(record)
        context = self._context(task)
        context.pre_tuning(trials, BATCH, context.generate_design_space(), database, self.cost_model)
        while candidates := context.generate_measure_candidates():
            timed = self._measure(candidates)
            results = [RunnerResult(list(item.samples) or [FAILED_SECONDS], None) for item in timed]
            context.notify_runner_results(candidates, results)
            self.cost_model.update(context, candidates, results)
            measured = []
            for candidate, item in zip(candidates, timed, strict=True):
                if item.samples:
                    record = TuningRecord(
                        candidate.sch.trace, workload, list(item.samples), self.target, candidate.args_info
                    )
                    database.commit_tuning_record(record)
                    measured.append(Measured(dump_trace(record), item.seconds))
            yield Batch(len(candidates), tuple(measured), tuple(item.error for item in timed if item.error))
            if len(candidates) <= TINY:
                break
        context.post_tuning()

    def time_again(self, records: Sequence[TuningRecord]) -> list[float | None]:
        """Return each record's median seconds, timed in turns and with care; None for one that does not run here.

        A single short timing picks lucky candidates.
        """
        candidates = [record.as_measure_candidate() for record in records]
        built = self.pool.build(candidates)
        samples: list[list[float]] = [[] for _ in candidates]
        for _ in range(RETIMING_ROUNDS):
            for candidate, build, found in zip(candidates, built, samples, strict=True):
                if build.library:
                    found.extend(self.pool.time(build.library, candidate.args_info, RETIMING).samples)
        self.pool.remove(built)
        return [statistics.median(found) if found else None for found in samples]

    def _measure(self, candidates: Sequence[Any]) -> list[Timed]:
        built = self.pool.build(candidates)
        timed = [
            self.pool.time(build.library, candidate.args_info, self._timing)
            if build.library
            else Timed(error=build.error)
            for build, candidate in zip(built, candidates, strict=True)
        ]
        self.pool.remove(built)
        return timed

    @property
    def _timing(self) -> Timing:
        return Timing(self.options.number, self.options.repeat, self.options.min_repeat_ms)

    def _context(self, task: Task) -> Any:
        rules = "llvm"
        return meta_schedule.TuneContext(
            task.mod,
            target=self.target,
            space_generator=PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules),
            search_strategy=EvolutionarySearch(
                population_size=POPULATION, init_min_unmeasured=1, genetic_num_iters=GENERATIONS
            ),
            task_name=task.name,
            rand_state=_random_state(task.key, self.options.seed),
            num_threads=self.threads,
        )


def _random_state(key: str, seed: int) -> int:
    return 1 + (int(key, 16) + seed) % (2**31 - 2)
