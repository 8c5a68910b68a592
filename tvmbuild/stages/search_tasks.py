"""The measuring half of tune: search Tasks one after the other, every batch written to its record file at once."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
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
                trials -= max((count for _, count in file.searched), default=0)
            known = load_known(_seeds(step, file), task.mod, target)
            done = 0
            for batch in searcher.search(task, trials, known):
                done += batch.candidates
                measured += batch.candidates
                _report_errors(task, batch)
                file = _add(file, batch)
                write_task_file(record_path(folder, task.key), file)
                report_progress(
                    f"task {number + 1}/{len(chosen)} {task.name}: {done}/{trials} candidates, "
                    f"best {_best_us(file)}, {measured} measured in {time.monotonic() - start:.0f} s"
                )
            if done < trials:
                write_task_file(record_path(folder, task.key), file.with_exhausted(machine_class()))
    return measured


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
    """Return the schedules that the search starts from: this machine's, else what other targets found for the Task."""
    own = file.best_on(machine_class())
    if own:
        return own
    others = [read_task_file(path) for path in sorted(Layout(step.root).records("").glob(f"*/{file.key}.json"))]
    kind = json.loads(file.target)["kind"]
    found = [r for other in others if other and json.loads(other.target)["kind"] == kind for r in other.records]
    return tuple(sorted(found, key=lambda record: (record.seconds, record.trace)))[:BEST]


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


def _add(file: TaskFile, batch: Batch) -> TaskFile:
    threads = int(os.environ["TVM_NUM_THREADS"])
    records = tuple(
        Record(one.trace, float(f"{one.seconds:.4g}"), machine_class(), threads, version("apache-tvm"))
        for one in batch.measured
    )
    if batch.candidates:
        return file.with_results(machine_class(), records, batch.candidates)
    return file.with_times(records)


def _best_us(file: TaskFile) -> str:
    best = file.best_on(machine_class())
    return f"{best[0].seconds * 1e6:.1f} us" if best else "none yet"
