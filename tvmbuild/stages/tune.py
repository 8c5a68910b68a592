"""tune:M@T — extract the cell's Tasks, measure what the records do not cover, elect the Schedule."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import tvm

from tvmbuild.compiler.importer import import_onnx
from tvmbuild.compiler.intrinsics import prepare_intrinsics
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.precision import reduce_precision
from tvmbuild.compiler.target import tvm_target
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.rpc import lock_name
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import write_json
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.choices import Choices, Graph, read_choices
from tvmbuild.records.selection import (
    Schedule,
    TaskId,
    is_wanted,
    list_missing,
    must_choose,
    read_applicable_files,
    resolved_target,
    write_tasks,
)
from tvmbuild.records.store import TaskFile
from tvmbuild.specs import DeviceSpec, LocalDevice, RpcDevice, is_timed
from tvmbuild.steps import Step, TuneStep
from tvmbuild.tuning.book import device_class
from tvmbuild.tuning.choose import choose_algorithms, find_graph
from tvmbuild.tuning.search import Cell, Searched, search_tasks
from tvmbuild.tuning.verify import checked_records


@dataclass(frozen=True)
class Tuned:
    """What this run measured."""

    search: Searched = field(default_factory=Searched)
    seconds: float = 0.0
    searched: tuple[Task, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What to search, as far as the mode asks for it."""

    tasks: tuple[Task, ...]
    done: frozenset[str] = frozenset()
    """Keys of those that this run has searched before."""
    one_model: bool = True
    """False: they compute some of it in several ways."""


Lowering = tuple[Lowered, tuple[Task, ...], Graph | None]
"""What is compiled, its Tasks, and what there was to choose."""


def run(step: Step[TuneStep]) -> None:
    """Write `tasks.json`, `schedule.json` and `tune.json`; add what was measured to the target's records."""
    options = step.options
    target = tvm_target(options.kind, options.attributes, options.host)
    with device_lock("local", exclusive=False):
        report_progress("extracting tasks")
        imported = reduce_precision(import_onnx(step.input("model"), step.model), options.precision, options.kind)
        direct = lower(imported, target)
        prepare_intrinsics(direct.mod, target)
        tasks = extract_tasks(direct)
    graph = find_graph(direct, tasks)
    folder, resolved = Layout(step.root).records(options.target), resolved_target(options)
    choices = read_choices(folder, graph, resolved)
    if choices.problem is not None:
        report_progress(choices.problem)
        print(choices.problem)
    tuned = Tuned()
    known = Choices({}) if step.settings.tune == "full" else choices
    if graph is not None and _may_search(step, options) and must_choose(options, graph, known):
        runs: list[Tuned] = []

        def search(found: tuple[Task, ...]) -> None:
            # All at once: were it interrupted, no Task would be without a record for the sake of a choice.
            every = {task.key: task for task in (*tasks, *found)}
            runs.append(_search(step, Wanted(tuple(every.values()), one_model=False), target))

        choices = choose_algorithms(step, (imported, direct, graph), target, search)
        tuned = _add(*runs)
    algorithms = choices.algorithms(options.tune.algorithms)
    lowered = direct
    if algorithms:
        with device_lock("local", exclusive=False):
            lowered = lower(imported, target, None, algorithms)
            tasks = extract_tasks(lowered)
    done = frozenset(task.key for task in tuned.searched)
    tuned = _add(tuned, _search(step, Wanted(tasks, done), target))
    records = checked_records(step, options, tasks)
    with device_lock("local", exclusive=False):
        schedule = replace(records.elect(), algorithms=algorithms)
    keys = {task.key for task in tasks}
    records.drop_failed(task for task in tuned.searched if task.key in keys)
    _publish(step, (lowered, tasks, graph), tuned, (schedule, records.list_quarantined()))


def _search(step: Step[TuneStep], wanted: Wanted, target: tvm.target.Target) -> Tuned:
    """Search what the mode asks for of the Tasks, but not those that this run has searched before."""
    options = step.options
    with device_lock("local", exclusive=False):
        records = checked_records(step, options, wanted.tasks)
        records.elect()  # what fails is out of the way before anything is searched
        chosen = _to_search(step, options, wanted)
        if chosen and _may_search(step, options):
            report_progress("checking the records that the search starts from")
            records.check_for_search(chosen, device_class(options))
    return _tune(step, wanted, target)


def _add(*runs: Tuned) -> Tuned:
    phases: Counter[str] = Counter()
    for each in runs:
        phases.update(each.search.phases)
    return Tuned(
        Searched(sum(each.search.measured for each in runs), phases),
        sum(each.seconds for each in runs),
        tuple(task for each in runs for task in each.searched),
    )


def _tune(step: Step[TuneStep], wanted: Wanted, target: tvm.target.Target) -> Tuned:
    """Search what the mode asks for, holding the device; nothing for mode `never` or a target without a device."""
    options = step.options
    if not _may_search(step, options) or not _to_search(step, options, wanted):
        return Tuned()
    start = time.monotonic()
    with _hold(options.kind, options.device):
        # Another process may have tuned the same Tasks while we waited.
        chosen = _to_search(step, options, wanted)
        searched = search_tasks(step, Cell(wanted.tasks, chosen, target, wanted.one_model)) if chosen else Searched()
    return Tuned(searched, time.monotonic() - start, chosen)


def _may_search(step: Step[TuneStep], options: TuneStep) -> bool:
    return step.settings.tune != "never" and is_timed(options.device)


@contextmanager
def _hold(kind: str, device: DeviceSpec) -> Iterator[None]:
    """Hold what is timed on; where that are boards, this machine only builds. A card is held by who times on it."""
    if isinstance(device, LocalDevice) and kind == "cuda":
        with device_lock("local", exclusive=False):
            yield
        return
    if not isinstance(device, RpcDevice):
        with device_lock("local", exclusive=True):
            yield
        return
    with device_lock(lock_name(device), exclusive=True), device_lock("local", exclusive=False):
        yield


def _to_search(step: Step[TuneStep], options: TuneStep, wanted: Wanted) -> tuple[Task, ...]:
    tasks = wanted.tasks
    if step.settings.tune == "full":
        return tuple(task for task in tasks if is_wanted(task.name, options.tune) and task.key not in wanted.done)
    files = _files(step, options, tasks)
    missing = {task.key for task in list_missing(files, _ids(tasks), options.tune)}
    # An interrupted search: its last measurements are in the journal, and its best were not timed again.
    layout = Layout(step.root)
    missing |= {task.key for task in tasks if layout.journal(options.target, task.key).exists()}
    return tuple(task for task in tasks if task.key in missing)


def _publish(
    step: Step[TuneStep], cell: Lowering, tuned: Tuned, elected: tuple[Schedule, list[dict[str, str]]]
) -> None:
    (lowered, tasks, graph), (schedule, quarantined) = cell, elected
    uncovered = [task for task in tasks if task.key not in schedule.traces]
    if uncovered and step.refuses_uncovered:
        raise TvmbuildError(
            f"{step.subject}: {len(uncovered)} of {len(tasks)} Tasks have no record: "
            + ", ".join(sorted(task.name for task in uncovered)),
            "tune them (tune=missing, on a machine that has the device), or drop strict=1",
        )
    write_tasks(step.output("tasks"), _ids(tasks), graph)
    write_json(
        step.output("info"),
        {
            "format": 1,
            "tasks": len(tasks),
            "covered": len(tasks) - len(uncovered),
            "uncovered": [{"key": task.key, "name": task.name} for task in uncovered],
            "quarantined": quarantined,
            "layout": lowered.layout,
            "algorithms": schedule.algorithms,
            "notes": list(lowered.notes),
            "measured_now": tuned.search.measured,
            "phases_now": dict(tuned.search.phases),
            "searched_now": [task.name for task in tuned.searched],
            "seconds": round(tuned.seconds, 1),
        },
    )
    # Last: compile depends on this file, and an interrupted step must leave the old one.
    write_json(step.output("schedule"), schedule.to_json())


def _files(step: Step[TuneStep], options: TuneStep, tasks: tuple[Task, ...]) -> dict[str, TaskFile]:
    folder = Layout(step.root).records(options.target)
    return read_applicable_files(folder, (task.key for task in tasks), resolved_target(options))


def _ids(tasks: tuple[Task, ...]) -> tuple[TaskId, ...]:
    return tuple(TaskId(task.key, task.name, task.weight) for task in tasks)
