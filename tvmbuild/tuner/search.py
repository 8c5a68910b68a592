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
from tvmbuild.records.store import BEST
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

        ``known`` records seed the search. The last batch holds the fastest candidates timed again, with care:
        its ``candidates`` is 0.
        """
        database = MemoryDatabase()
        workload = database.commit_workload(task.mod)
        for record in known:
            database.commit_tuning_record(record)
        context = self._context(task)
        context.pre_tuning(trials, BATCH, context.generate_design_space(), database, self.cost_model)
        best: list[tuple[Measured, str, Any]] = []
        while candidates := context.generate_measure_candidates():
            built = self.pool.build(candidates)
            timed = [
                self.pool.time(b.library, c.args_info, self._timing) if b.library else Timed(error=b.error)
                for b, c in zip(built, candidates, strict=True)
            ]
            results = [_runner_result(item) for item in timed]
            records = [
                TuningRecord(c.sch.trace, workload, list(t.samples) or [FAILED_SECONDS], self.target, c.args_info)
                for c, t in zip(candidates, timed, strict=True)
            ]
            context.notify_runner_results(candidates, results)
            self.cost_model.update(context, candidates, results)
            measured = []
            for record, item, build, candidate in zip(records, timed, built, candidates, strict=True):
                if item.samples and build.library:
                    database.commit_tuning_record(record)
                    one = Measured(dump_trace(record), item.seconds)
                    measured.append(one)
                    best.append((one, build.library, candidate.args_info))
            best = _keep_fastest(best)
            errors = tuple(item.error for item in timed if item.error)
            yield Batch(len(candidates), tuple(measured), errors)
            if len(candidates) <= TINY:
                break
        context.post_tuning()
        yield Batch(0, self._time_again(best))

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

    def _time_again(self, best: Sequence[tuple[Measured, str, Any]]) -> tuple[Measured, ...]:
        """Time the fastest few again, in turns, and take the medians: a single short timing picks lucky candidates."""
        samples: dict[int, list[float]] = {index: [] for index in range(len(best))}
        for _ in range(RETIMING_ROUNDS):
            for index, (_, library, args_info) in enumerate(best):
                samples[index].extend(self.pool.time(library, args_info, RETIMING).samples)
        return tuple(
            Measured(best[index][0].trace, statistics.median(values)) for index, values in samples.items() if values
        )


def _keep_fastest(best: list[tuple[Measured, str, Any]]) -> list[tuple[Measured, str, Any]]:
    ordered = sorted(best, key=lambda item: item[0].seconds)
    for _, library, _ in ordered[BEST:]:
        os.unlink(library)  # noqa: PTH108  (a plain string on the hot path)
    return ordered[:BEST]


def _runner_result(timed: Timed) -> RunnerResult:
    return RunnerResult(list(timed.samples) or [FAILED_SECONDS], None)


def _random_state(key: str, seed: int) -> int:
    return 1 + (int(key, 16) + seed) % (2**31 - 2)
