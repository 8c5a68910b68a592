"""The measuring half of tune: search Tasks one after the other, every batch written to its record file at once."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import tvm

from tvmbuild.compiler.tasks import Task
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import canonical_json, remove_leftovers
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.database import load_known
from tvmbuild.records.selection import read_applicable, resolved_target, wanted_trials
from tvmbuild.records.store import BEST, Record, TaskFile, read_task_file, record_path, write_task_file
from tvmbuild.records.traces import dump_workload
from tvmbuild.specs import Step, TuneStep
from tvmbuild.tuner.pool import UNBUILT, candidate_pool
from tvmbuild.tuner.search import TINY, Batch, Searcher
from tvmbuild.tuner.worker import skip_tensor_intrinsics


def search_tasks(step: Step, chosen: Sequence[Task], tasks: int, target: tvm.target.Target) -> int:
    """Search the ``chosen`` of the cell's ``tasks`` Tasks; return how many candidates were measured."""
    options = step.options
    if not isinstance(options, TuneStep):
        raise TypeError(f"not a tune step: {step.id}")
    skip_tensor_intrinsics()
    folder = Layout(step.root).records(options.target)
    start, measured = time.monotonic(), 0
    with candidate_pool(target, workers=len(os.sched_getaffinity(0))) as pool:
        searcher = Searcher(target, options.tune, pool)
        for number, task in enumerate(chosen):
            file = _open(folder, task, options)
            trials = wanted_trials(options.tune, tasks)
            if step.settings.tune == "missing":
                trials -= file.most_searched
            known = [loaded for _, loaded in load_known(_seeds(step, file), task.mod, target)]
            done = counted = 0
            for batch in searcher.search(task, trials, known):
                _report_errors(task, batch)
                # The count lags a batch behind: a Task is searched only when its best were timed again.
                file = file.with_results(machine_class(), _records(batch), counted)
                write_task_file(record_path(folder, task.key), file)
                counted = batch.candidates
                done += counted
                report_progress(
                    f"task {number + 1}/{len(chosen)} {task.name}: {done}/{trials} candidates, "
                    f"best {_best_us(file)}, {measured + done} measured in {time.monotonic() - start:.0f} s"
                )
            measured += done
            file = _elect(searcher, task, file.with_results(machine_class(), (), counted))
            if done < trials:
                file = file.with_exhausted(machine_class())
            write_task_file(record_path(folder, task.key), file)
    return measured


def _elect(searcher: Searcher, task: Task, file: TaskFile) -> TaskFile:
    """Return the file with this machine's best timed again: those of earlier, interrupted searches too."""
    known = load_known(file.best_on(machine_class()), task.mod, searcher.target)
    seconds = searcher.time_again([loaded for _, loaded in known])
    return file.with_times(
        tuple(
            replace(record, seconds=_rounded(found))
            for (record, _), found in zip(known, seconds, strict=True)
            if found is not None
        )
    )


def machine_class() -> str:
    """Return this machine's device class: LLVM's name of its CPU, e.g. `znver4`."""
    return str(tvm.get_global_func("target.llvm_get_system_cpu")())


def _report_errors(task: Task, batch: Batch) -> None:
    """Write why candidates failed to the step's log; TvmbuildError when not one of a whole batch could be built.

    That is this machine's fault (a full disk, no linker), and counted as searched the Task would never get a record.
    """
    reasons = [error.strip().splitlines()[-1] for error in batch.errors]
    for reason, count in Counter(reasons).most_common():
        print(f"{task.name}: {count} of {batch.candidates} candidates failed: {reason}")
    if batch.candidates > TINY and sum(error.startswith(UNBUILT) for error in batch.errors) == batch.candidates:
        raise TvmbuildError(
            f"no candidate of the Task {task.name} ({task.key}) could be built: {reasons[0]}",
            "make room in the temporary folder (TMPDIR); `tvmbuild doctor` checks the linker",
        )


def _seeds(step: Step, file: TaskFile) -> tuple[Record, ...]:
    """Return the schedules that the search starts from: this machine's, else what other targets found for the Task.

    Each file's own order counts: times of different targets and machines are never compared.
    """
    own = file.best_on(machine_class())
    if own:
        return own
    kind = json.loads(file.target)["kind"]
    found: list[Record] = []
    for path in sorted(Layout(step.root).records("").glob(f"*/{file.key}.json")):
        try:
            other = read_task_file(path)
        except TvmbuildError as error:
            print(f"not used as a seed: {error.message}")
            continue
        if other and json.loads(other.target)["kind"] == kind:
            found += other.records[:BEST]
    return tuple(found[:BEST])


def _open(folder: Path, task: Task, options: TuneStep) -> TaskFile:
    remove_leftovers(record_path(folder, task.key))
    resolved = resolved_target(options)
    known = read_applicable(folder, task.key, resolved)
    return known or TaskFile(
        key=task.key,
        name=task.name,
        workload=dump_workload(task.mod),
        target=canonical_json(resolved.to_json()),
        tvm=version("apache-tvm"),
    )


def _records(batch: Batch) -> tuple[Record, ...]:
    threads = int(os.environ["TVM_NUM_THREADS"])
    return tuple(
        Record(one.trace, _rounded(one.seconds), machine_class(), threads, version("apache-tvm"))
        for one in batch.measured
    )


def _rounded(seconds: float) -> float:
    """Four digits are more than a timing is good for, and keep a git diff readable."""
    return float(f"{seconds:.4g}")


def _best_us(file: TaskFile) -> str:
    best = file.best_on(machine_class())
    return f"{best[0].seconds * 1e6:.1f} us" if best else "none yet"
