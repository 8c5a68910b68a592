"""tune:M@T — extract the cell's Tasks, measure what the records do not cover, elect the Schedule."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import tvm

from tvmbuild.compiler.importer import import_onnx
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.precision import reduce_precision
from tvmbuild.compiler.target import tvm_target
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import write_json
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.selection import (
    Schedule,
    TaskId,
    is_wanted,
    list_missing,
    read_applicable_files,
    resolved_target,
    write_tasks,
)
from tvmbuild.records.store import TaskFile
from tvmbuild.specs import Step, TuneStep
from tvmbuild.stages.check_records import checked_records
from tvmbuild.stages.search_tasks import Cell, Searched, search_tasks
from tvmbuild.stages.task_records import machine_class


@dataclass(frozen=True)
class Tuned:
    """What this run measured."""

    search: Searched = field(default_factory=Searched)
    seconds: float = 0.0
    searched: tuple[Task, ...] = ()


def run(step: Step) -> None:
    """Write `tasks.json`, `schedule.json` and `tune.json`; add what was measured to the target's records."""
    options = step.options
    if not isinstance(options, TuneStep):
        raise TypeError(f"not a tune step: {step.id}")
    target = tvm_target(options.kind, options.attributes, options.host)
    with device_lock("local", exclusive=False):
        report_progress("extracting tasks")
        lowered = lower(reduce_precision(import_onnx(step.input("model")), options.precision, options.kind), target)
        tasks = extract_tasks(lowered)
        records = checked_records(step, options, tasks)
        records.elect()  # what fails is out of the way before anything is searched
        chosen = _to_search(step, options, tasks)
        if chosen and _may_search(step, options):
            report_progress("checking the records that the search starts from")
            records.check_for_search(chosen, machine_class())
    tuned = _tune(step, options, tasks, target)
    with device_lock("local", exclusive=False):
        schedule = records.elect()
    records.drop_failed(tuned.searched)
    _publish(step, (lowered, tasks), tuned, (schedule, records.list_quarantined()))


def _tune(step: Step, options: TuneStep, tasks: tuple[Task, ...], target: tvm.target.Target) -> Tuned:
    """Search what the mode asks for, holding the device; nothing for mode `never` or a target without a device."""
    if not _may_search(step, options) or not _to_search(step, options, tasks):
        return Tuned()
    if options.kind != "llvm" or options.device.kind != "local":
        raise TvmbuildError(
            f"tuning for kind {options.kind} on device {options.device.kind} cannot be done yet",
            f"set device: none for the target {options.target}, or run with tune=never",
        )
    threads = os.environ.get("TVM_NUM_THREADS")
    if threads is None:
        raise RuntimeError("a tune step's environment must set TVM_NUM_THREADS")
    start = time.monotonic()
    with device_lock("local", exclusive=True):
        # Another process may have tuned the same Tasks while we waited.
        chosen = _to_search(step, options, tasks)
        searched = search_tasks(step, Cell(tasks, chosen, target)) if chosen else Searched()
    return Tuned(searched, time.monotonic() - start, chosen)


def _may_search(step: Step, options: TuneStep) -> bool:
    return step.settings.tune != "never" and options.device.kind != "none"


def _to_search(step: Step, options: TuneStep, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    if step.settings.tune == "full":
        return tuple(task for task in tasks if is_wanted(task.name, options.tune))
    files = _files(step, options, tasks)
    missing = {task.key for task in list_missing(files, _ids(tasks), options.tune)}
    # An interrupted search: its last measurements are in the journal, and its best were not timed again.
    layout = Layout(step.root)
    missing |= {task.key for task in tasks if layout.journal(options.target, task.key).exists()}
    return tuple(task for task in tasks if task.key in missing)


def _publish(
    step: Step, cell: tuple[Lowered, tuple[Task, ...]], tuned: Tuned, elected: tuple[Schedule, list[dict[str, str]]]
) -> None:
    (lowered, tasks), (schedule, quarantined) = cell, elected
    uncovered = [task for task in tasks if task.key not in schedule.traces]
    if uncovered and step.refuses_uncovered:
        raise TvmbuildError(
            f"{step.subject}: {len(uncovered)} of {len(tasks)} Tasks have no record: "
            + ", ".join(sorted(task.name for task in uncovered)),
            "tune them (tune=missing, on a machine that has the device), or drop strict=1",
        )
    write_tasks(step.output("tasks"), _ids(tasks))
    write_json(
        step.output("info"),
        {
            "format": 1,
            "tasks": len(tasks),
            "covered": len(tasks) - len(uncovered),
            "uncovered": [{"key": task.key, "name": task.name} for task in uncovered],
            "quarantined": quarantined,
            "layout": lowered.layout,
            "notes": list(lowered.notes),
            "measured_now": tuned.search.measured,
            "phases_now": dict(tuned.search.phases),
            "searched_now": [task.name for task in tuned.searched],
            "seconds": round(tuned.seconds, 1),
        },
    )
    # Last: compile depends on this file, and an interrupted step must leave the old one.
    write_json(step.output("schedule"), schedule.to_json())


def _files(step: Step, options: TuneStep, tasks: tuple[Task, ...]) -> dict[str, TaskFile]:
    folder = Layout(step.root).records(options.target)
    return read_applicable_files(folder, (task.key for task in tasks), resolved_target(options))


def _ids(tasks: tuple[Task, ...]) -> tuple[TaskId, ...]:
    return tuple(TaskId(task.key, task.name, task.weight) for task in tasks)
