"""The measuring half of tune: searches, each measurement journaled at once, each batch written to its record file."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import tvm

from tvmbuild.compiler.tasks import Task
from tvmbuild.devices.candidate_timer import CandidateTimer
from tvmbuild.devices.cuda_timer import time_kernel
from tvmbuild.devices.gpu_timer import GpuTimer
from tvmbuild.devices.rpc_boards import BoardTimer
from tvmbuild.devices.vulkan_timer import time_shader
from tvmbuild.errors import TvmbuildError
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.selection import needs_search, wanted_trials
from tvmbuild.records.store import TaskFile
from tvmbuild.specs import RpcDevice
from tvmbuild.steps import Step, TuneStep
from tvmbuild.tuning.book import TaskRecords
from tvmbuild.tuning.cores import Cores, all_cores, share_cores
from tvmbuild.tuning.pool import UNBUILT, CandidatePool, candidate_pool
from tvmbuild.tuning.prior import teach
from tvmbuild.tuning.rates import Spent, add_rates, find_word
from tvmbuild.tuning.scheduler import predict_latency
from tvmbuild.tuning.session import Batch, drop_wrong, run_searches, time_again
from tvmbuild.tuning.task_search import BATCH, Allowance, SearchSetup, TaskSearch, make_cost_model


@dataclass(frozen=True)
class Cell:
    """What is tuned: all Tasks of the cell, and those of them ``chosen`` to be searched."""

    tasks: tuple[Task, ...]
    chosen: tuple[Task, ...]
    target: tvm.target.Target
    one_model: bool = True
    """False: the Tasks compute some of it in several ways, and their sum is no latency."""


@dataclass(frozen=True)
class Searched:
    """How many candidates were measured, and the seconds of each phase: teach, search, build, time, learn, elect."""

    measured: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)


def search_tasks(step: Step[TuneStep], cell: Cell) -> Searched:
    """Search the chosen Tasks."""
    options = step.options
    records = TaskRecords(step, options, cell.target)
    cell = replace(cell, chosen=tuple(map(records.as_recorded, cell.chosen)))
    threads, elsewhere = options.threads, isinstance(options.device, RpcDevice) or options.kind == "cuda"
    cores = all_cores() if elsewhere else share_cores(threads)
    if not elsewhere and len(cores.timing) < threads:
        raise TvmbuildError(
            f"{options.target} has num-cores: {threads}, and this process may use {len(cores.timing)} cores",
            "tune on a machine with as many cores, or correct num-cores in targets.yaml",
        )
    os.sched_setaffinity(0, cores.building)
    model = make_cost_model(options.tune, len(cores.building))
    setup = SearchSetup(cell.target, options.tune, model, len(cores.building))
    searches = [
        TaskSearch(task, setup, _allow(step, options, cell, records.open(task)), records.find_start(task))
        for task in cell.chosen
    ]
    progress = _Progress(cell, records, searches)
    phases: defaultdict[str, float] = defaultdict(float)
    start = time.monotonic()
    if options.tune.cost_model == "xgb" and not all(search.over for search in searches):
        teach(model, records.find_examples(cell.chosen), cell.target, setup.threads)
        phases["teach"] = time.monotonic() - start
    open_ones = list(searches)
    with (
        _taken_down(step, searches, start),
        candidate_pool(cell.target, cores, _make_timer(options, threads, cores)) as pool,
    ):
        for batch in run_searches(searches, pool, cores, options.tune, records):
            _report_errors(batch, options.kind)
            records.add(batch)
            for name, seconds in batch.phases.items():
                phases[name] += seconds
            if batch.search.over:
                open_ones.remove(batch.search)
                phases["elect"] += _elect(pool, records, batch.search)
            progress.show()
        # Also those whose candidates an interrupted run had measured: their best were not timed again yet.
        for search in open_ones:
            phases["elect"] += _elect(pool, records, search)
    return Searched(progress.measured, {name: round(seconds, 1) for name, seconds in phases.items()})


@contextmanager
def _taken_down(step: Step[TuneStep], searches: Sequence[TaskSearch], start: float) -> Iterator[None]:
    """Write down for the next plan how long the searches took since ``start``, also where they are interrupted."""
    try:
        yield
    finally:
        spent: defaultdict[str, Spent] = defaultdict(Spent)
        share = (time.monotonic() - start) / max(1e-9, sum(search.curve.spent for search in searches))
        for search in searches:
            if search.curve.measured:
                trials = search.allowance.share if search.over else search.curve.measured
                spent[find_word(search.task.name)] += Spent(trials, search.curve.spent * share)
        if spent:
            with suppress(OSError):  # a plan's price is worth no failed step
                add_rates(Layout(step.root), step.options, spent)


def _make_timer(options: TuneStep, threads: int, cores: Cores) -> CandidateTimer | None:
    """Return what times where this machine's cores do not."""
    if isinstance(options.device, RpcDevice):
        return BoardTimer(options.device, threads)
    if options.kind == "cuda":
        return GpuTimer("cuda", time_kernel, cores.building)
    # A software driver computes on the cores.
    return GpuTimer("vulkan", time_shader, cores.timing) if options.kind == "vulkan" else None


def _allow(step: Step[TuneStep], options: TuneStep, cell: Cell, file: TaskFile) -> Allowance:
    """Return how many candidates the Task of that file gets now."""
    done, tasks = 0, len(cell.tasks)
    if step.settings.tune == "missing":
        if not needs_search(file, file.name, options.tune, tasks):
            return Allowance(0, 0)  # an interrupted search that is over: only its best are to be timed again
        done = file.most_searched
    share = wanted_trials(options.tune, tasks)
    return Allowance(max(0, share - done), max(0, options.tune.trials_per_task - done))


def _elect(pool: CandidatePool, records: TaskRecords, search: TaskSearch) -> float:
    """Time this machine's best again, those of earlier, interrupted searches too; return the seconds it took.

    The best must compute what the Task does: a schedule of TVM's search that does not is dropped, and the next is it.
    """
    start = time.monotonic()
    best = records.best(search.task)
    loaded = [each for _, each in best]
    seconds = time_again(pool, loaded, search.shelf)
    faults = drop_wrong(pool, loaded, seconds)
    for fault in faults:
        print(f"{search.task.name}: a schedule was dropped that computes wrong numbers: {fault}")
    times = {record: found for (record, _), found in zip(best, seconds, strict=True)}
    records.close(search, times, some_were_wrong=bool(faults))
    return time.monotonic() - start


def _report_errors(batch: Batch, kind: str = "llvm") -> None:
    """Write why candidates failed to the step's log; TvmbuildError when not one of a whole batch could be built.

    That is this machine's fault (a full disk, no linker); counted as searched, the Task would never get a record. On a
    card it can be TVM's, which cannot lower some Tasks of float16 whatever the schedule: the search goes on.
    """
    task = batch.search.task
    reasons = [error.strip().splitlines()[-1] for error in batch.errors]
    for reason, count in Counter(reasons).most_common():
        print(f"{task.name}: {count} of {len(batch.timed)} candidates failed: {reason}")
    if kind == "llvm" and sum(error.startswith(UNBUILT) for error in batch.errors) == len(batch.timed):
        raise TvmbuildError(
            f"no candidate of the Task {task.name} ({task.key}) could be built: {reasons[0]}",
            "make room in the temporary folder (TMPDIR); `tvmbuild doctor` checks the linker; `tune: {ops: …}` in "
            "targets.yaml leaves a Task out",
        )


class _Progress:
    """The step's live line."""

    def __init__(self, cell: Cell, records: TaskRecords, searches: list[TaskSearch]) -> None:
        self._searches, self._one_model = searches, cell.one_model
        chosen = {task.key for task in cell.chosen}
        others = [task for task in cell.tasks if task.key not in chosen]
        bests = [(task.weight, records.best_here(task)) for task in others]
        self._others = sum(weight * best[0].seconds for weight, best in bests if best)
        self._start = time.monotonic()

    @property
    def measured(self) -> int:
        """How many candidates were measured."""
        return sum(search.curve.measured for search in self._searches)

    def show(self) -> None:
        """Report it."""
        curves = [search.curve for search in self._searches]
        left = sum(max(0, each.allowance.share - each.proposed) for each in self._searches if not each.over)
        seconds = time.monotonic() - self._start
        rate = self.measured / seconds
        over = sum(search.over for search in self._searches)
        parts = [f"{over}/{len(curves)} Tasks", f"{self.measured} candidates, {rate:.1f}/s"]
        if self._one_model and all(math.isfinite(curve.best) for curve in curves):
            now = self._others + predict_latency(curves, 0)
            expected = self._others + predict_latency(curves, math.ceil(left / BATCH))
            parts.append(f"{now * 1e3:.3g} ms, {expected * 1e3:.3g} expected")
        if left:
            parts.append(f"at most {left / rate / 60:.0f} min left")
        report_progress("; ".join(parts))
