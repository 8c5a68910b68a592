"""The search phase. Each measurement is journaled at once, and each batch is written to its Task's record file."""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from tvmbuild.base.pace import describe_left
from tvmbuild.base.progress import report_progress
from tvmbuild.base.wording import count
from tvmbuild.compiler.tasks import Task
from tvmbuild.devices.table import device_kind
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.selection import RULE_TRIALS, needs_search, wanted_trials
from tvmbuild.records.task_file import TaskFile
from tvmbuild.replay.database import load_known
from tvmbuild.targets.table import target_kind
from tvmbuild.tuning.agenda import Agenda, list_wanted
from tvmbuild.tuning.batches import Batch, drop_wrong, run_searches, time_again
from tvmbuild.tuning.candidate_pool import REFUSED, UNBUILT, CandidatePool, candidate_pool
from tvmbuild.tuning.cores import Cores, all_cores, share_cores
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.prior import teach
from tvmbuild.tuning.rates import Spent, add_rates, find_word
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.scheduler import predict_latency
from tvmbuild.tuning.start import as_recorded, find_examples, find_start
from tvmbuild.tuning.task_search import BATCH, Allowance, SearchSetup, TaskSearch, make_cost_model


@dataclass(frozen=True)
class Searched:
    """The amount and the duration of this run's measurements."""

    measured: int = 0
    """The number of candidates measured."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Phase → seconds. The phases are teach, search, build, time, learn and elect."""
    seconds: float = 0.0
    """The wall seconds of the search, including the wait for the device."""
    tasks: tuple[Task, ...] = ()
    """The Tasks that were searched."""

    def __add__(self, other: Searched) -> Searched:
        phases: Counter[str] = Counter()
        for each in (self, other):
            phases.update(each.phases)
        return Searched(
            self.measured + other.measured, phases, self.seconds + other.seconds, (*self.tasks, *other.tasks)
        )

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the searched Tasks."""
        return frozenset(task.key for task in self.tasks)


def search(job: Job, book: RecordBook, agenda: Agenda) -> Searched:
    """Search the chosen Tasks while holding the device, and write the results to the record files.

    Raises TvmbuildError if this machine cannot build or time candidates.
    """
    if not agenda.chosen:
        return Searched()
    start = time.monotonic()
    with device_kind(job.device).hold(job.device, job.kind):
        # Another process may have tuned the same Tasks while we waited.
        agenda = replace(agenda, chosen=list_wanted(job, book, agenda))
        searched = _measure(job, book, agenda) if agenda.chosen else Searched()
    return replace(searched, seconds=time.monotonic() - start, tasks=agenda.chosen)


def _measure(job: Job, book: RecordBook, agenda: Agenda) -> Searched:
    chosen = tuple(as_recorded(book, task) for task in agenda.chosen)
    cores = _find_cores(job)
    os.sched_setaffinity(0, cores.building)
    model = make_cost_model(job.options, len(cores.building))
    setup = SearchSetup(agenda.target, job.options, model, len(cores.building), job.deadline)
    searches = [
        TaskSearch(
            task,
            setup,
            _allow(job, book, book.open(task), len(agenda.tasks)),
            find_start(job, book, task, agenda.target),
        )
        for task in chosen
    ]
    line = LiveLine(agenda, book, searches)
    phases: defaultdict[str, float] = defaultdict(float)
    start = time.monotonic()
    if job.options.cost_model == "xgb" and not all(each.over or each.allowance.only_rules for each in searches):
        teach(model, find_examples(job, book, chosen, agenda.target), agenda.target, setup.threads)
        phases["teach"] = time.monotonic() - start
    open_ones = list(searches)
    timer = device_kind(job.device).make_timer(job.device, job.kind, job.threads, cores)
    with _rates_taken_down(job, searches, start), candidate_pool(agenda.target, cores, timer) as pool:
        for batch in run_searches(searches, pool, cores, job.options, book):
            _report_errors(batch, job.kind)
            book.add(batch)
            for name, seconds in batch.phases.items():
                phases[name] += seconds
            if batch.search.over:
                open_ones.remove(batch.search)
                phases["elect"] += _time_best(pool, book, batch.search)
            line.show()
        # This includes Tasks that an interrupted run had measured but whose best it had not timed again.
        for each in open_ones:
            phases["elect"] += _time_best(pool, book, each)
    return Searched(line.measured, {name: round(seconds, 1) for name, seconds in phases.items()})


@contextmanager
def _rates_taken_down(job: Job, searches: Sequence[TaskSearch], start: float) -> Iterator[None]:
    """Record how long the searches took since ``start``, even if they are interrupted.

    ``start`` is a monotonic time. The next plan estimates its price from this.
    """
    try:
        yield
    finally:
        spent: defaultdict[str, Spent] = defaultdict(Spent)
        share = (time.monotonic() - start) / max(1e-9, sum(each.curve.spent for each in searches))
        for each in searches:
            if each.curve.measured:
                trials = each.allowance.share if each.over and not each.is_late else each.curve.measured
                spent[find_word(each.task.name)] += Spent(trials, each.curve.spent * share)
        if spent:
            with suppress(OSError):  # a missing price must not fail a step
                add_rates(job.layout, job, spent)


def _allow(job: Job, book: RecordBook, file: TaskFile, tasks: int) -> Allowance:
    """Return how many candidates the file's Task gets in this run, if the search has that many ``tasks``."""
    done = 0
    if job.mode == "missing":
        if not needs_search(file, file.name, job.options, tasks):
            if book.lags(file):
                return Allowance(RULE_TRIALS, RULE_TRIALS, only_rules=True)
            return Allowance(0, 0)  # an interrupted search that is over: only its best candidates are timed again
        done = file.most_searched
    share = wanted_trials(job.options, tasks)
    return Allowance(max(0, share - done), max(0, job.options.trials_per_task - done))


def _time_best(pool: CandidatePool, book: RecordBook, search: TaskSearch) -> float:
    """Time this machine's best records of the Task again and close its file. Return the seconds that this took.

    Records of interrupted searches are included. The outputs of the best record must agree with the Task: a wrong
    schedule is dropped, and the next one is checked.
    """
    start, task = time.monotonic(), search.task
    best = load_known(book.best_trusted(task), task.mod, search.target)
    loaded = [each for _, each in best]
    seconds = time_again(pool, loaded, search.shelf)
    faults = drop_wrong(pool, loaded, seconds)
    for fault in faults:
        print(f"{task.name}: a schedule was dropped that computes wrong numbers: {fault}")
    times = {record: found for (record, _), found in zip(best, seconds, strict=True)}
    book.close(search, times, some_were_wrong=bool(faults))
    return time.monotonic() - start


def _find_cores(job: Job) -> Cores:
    """Return the timing and the building cores of this process. Raises TvmbuildError if there are too few."""
    if os.environ.get("TVM_NUM_THREADS") != str(job.threads):
        raise RuntimeError(f"TVM_NUM_THREADS must be {job.threads}: that many threads are what records will claim")
    if device_kind(job.device).frees_cores(job.kind):
        return all_cores()
    cores = share_cores(job.threads)
    if len(cores.timing) < job.threads:
        raise TvmbuildError(
            f"{job.target} has num-cores: {job.threads}, and this process may use {len(cores.timing)} cores",
            "tune on a machine with as many cores, or correct num-cores in targets.yaml",
        )
    return cores


def _report_errors(batch: Batch, kind: str = "llvm") -> None:
    """Write the reasons for failed candidates to the step's log.

    Raises TvmbuildError if no candidate of the batch could be built, because the machine is then at fault (a full disk,
    no linker). If the batch counted as searched, the Task would never get a record. The search goes on if TVM refuses
    to lower the schedules, and on a GPU.
    """
    task = batch.search.task
    reasons = [error.strip().splitlines()[-1] for error in batch.errors]
    for reason, number in Counter(reasons).most_common():
        print(f"{task.name}: {number} of {len(batch.timed)} candidates failed: {reason}")
    unbuilt = [reason for reason, error in zip(reasons, batch.errors, strict=True) if error.startswith(UNBUILT)]
    is_ours = target_kind(kind).always_builds and not all(REFUSED.match(reason) for reason in unbuilt)
    if is_ours and len(unbuilt) == len(batch.timed):
        raise TvmbuildError(
            f"no candidate of the Task {task.name} ({task.key}) could be built: {reasons[0]}",
            "make room in the temporary folder (TMPDIR); `tvmbuild doctor` checks the linker; `tune: {ops: …}` in "
            "targets.yaml leaves a Task out",
        )


# The live line of a search: its progress, and the model's latency now.


class LiveLine:
    """The live progress line of an agenda's searches."""

    def __init__(self, agenda: Agenda, book: RecordBook, searches: Sequence[TaskSearch]) -> None:
        self._searches, self._one_model = searches, agenda.one_model
        chosen = {task.key for task in agenda.chosen}
        others = [task for task in agenda.tasks if task.key not in chosen]
        bests = [(task.weight, book.best_here(task)) for task in others]
        self._others = sum(weight * best[0].seconds for weight, best in bests if best)
        self._start = time.monotonic()

    @property
    def measured(self) -> int:
        """The number of candidates measured so far."""
        return sum(search.curve.measured for search in self._searches)

    def show(self) -> None:
        """Report the present progress line."""
        curves = [search.curve for search in self._searches]
        left = sum(max(0, each.allowance.share - each.proposed) for each in self._searches if not each.over)
        seconds = time.monotonic() - self._start
        rate = self.measured / seconds
        over = sum(search.over for search in self._searches)
        known = self._one_model and all(math.isfinite(curve.best) for curve in curves)
        parts = [f"{over}/{len(curves)} Tasks"]  # the important part first: a narrow terminal cuts the rest
        if known:
            parts.append(f"{(self._others + predict_latency(curves, 0)) * 1e3:.3g} ms")
        if left:
            parts.append(f"at most {describe_left(left / rate)} left")
        if known:
            parts.append(f"{(self._others + predict_latency(curves, math.ceil(left / BATCH))) * 1e3:.3g} ms expected")
        parts.append(f"{count(self.measured, 'candidate')}, {rate:.1f}/s")
        report_progress("; ".join(parts))
