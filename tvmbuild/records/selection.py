"""The election of winners: from record files to a cell's Schedule. This module imports no tvm."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.files import canonical_json, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TuneOptions
from tvmbuild.records.block_names import list_blocks
from tvmbuild.records.choices import DIRECT, Choices, Graph
from tvmbuild.records.quarantine import has_file_fault, leave_out, read_faults
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.store import DamagedRecordsError, Read, read_task_file, record_path
from tvmbuild.records.task_file import Record, ResolvedTarget, TaskFile, code_of

FORMAT = 1
RULE_TRIALS = 4
"""The number of candidates of a Task that was searched under older rules: the best schedules of the present rules."""


@dataclass(frozen=True)
class TaskId:
    """One Task as `tasks.json` describes it."""

    key: str
    name: str
    weight: int
    """The number of calls of the Task in the model."""


@dataclass(frozen=True)
class Rules:
    """The version of a target kind's rules, and the device class that would measure their schedules.

    ``device_class`` is None if it is unknown.
    """

    version: int
    device_class: str | None


class ForTarget(Protocol):
    """The target facts that records depend on. The options of a step provide them, for example."""

    @property
    def kind(self) -> str:
        """The target's kind."""

    @property
    def attributes(self) -> Attributes:
        """The target's attributes."""

    @property
    def host(self) -> Attributes:
        """The attributes of the CPU beside a GPU."""


def resolved_target(options: ForTarget) -> ResolvedTarget:
    """Return the resolved target that a record must match to be used for these options."""
    return ResolvedTarget(options.kind, options.attributes, options.host)


def read_applicable(folder: Path, key: str, target: ResolvedTarget, read: Read = read_task_file) -> TaskFile | None:
    """Return the part of the Task's record file that applies to ``target``, without quarantined records.

    Return None if the file is absent, damaged, quarantined, or made for other target attributes. ``folder`` is
    `records/<target>`. Raises TvmbuildError as `read_task_file` does, except for damage.
    """
    path, wanted = record_path(folder, key), canonical_json(target.to_json())
    try:
        task = read(path)
    except DamagedRecordsError:
        return None
    if task is None or task.key != key or task.code != code_of(wanted):
        return None
    faults = read_faults(folder, key, wanted)
    return None if has_file_fault(path, faults) else leave_out(task, faults)


def read_applicable_files(
    folder: Path, keys: Iterable[str], target: ResolvedTarget, read: Read = read_task_file
) -> dict[str, TaskFile]:
    """Return Task key → applicable part of its record file, sorted, for the Tasks that have an applicable file."""
    found = {key: read_applicable(folder, key, target, read) for key in sorted(set(keys))}
    return {key: task for key, task in found.items() if task is not None}


def elect(task: TaskFile, device_class: str | None) -> Record | None:
    """Return the fastest record of the device class, or None if the file has no record.

    If the class has no record, the first class in alphabetical order is used. Times of different classes are never
    compared.
    """
    classes = sorted({record.measured_on for record in task.records})
    if not classes:
        return None
    chosen = device_class if device_class in classes else classes[0]
    return task.best_on(chosen)[0]


def wanted_trials(options: TuneOptions, tasks: int) -> int:
    """Return the number of candidates for each of a cell's ``tasks`` Tasks.

    It is ``trials_per_task``, limited to an equal share (at least 1) of the cell's ``trials``.
    """
    if options.trials is None:
        return options.trials_per_task
    return min(options.trials_per_task, max(1, options.trials // max(1, tasks)))


def is_wanted(name: str, options: TuneOptions) -> bool:
    """Return whether the option ``ops`` allows a search of Tasks with this name, in any mode."""
    return any(fnmatchcase(name, pattern) for pattern in options.ops)


def needs_search(task: TaskFile | None, name: str, options: TuneOptions, tasks: int) -> bool:
    """Return whether mode `missing` searches the Task, as one of the cell's ``tasks`` Tasks.

    It does if ``ops`` allows it, no device class has finished its search, and none has measured enough candidates.
    """
    if not is_wanted(name, options):
        return False
    if task is None:
        return True
    over = task.exhausted or task.is_settled(options.patience)
    return not over and task.most_searched < wanted_trials(options, tasks)


def list_missing(files: Mapping[str, TaskFile], tasks: Sequence[TaskId], options: TuneOptions) -> tuple[TaskId, ...]:
    """Return the Tasks of a cell that mode `missing` searches. ``files`` come from `read_applicable_files`."""
    return tuple(task for task in tasks if needs_search(files.get(task.key), task.name, options, len(tasks)))


def lags(task: TaskFile | None, name: str, options: TuneOptions, rules: Rules) -> bool:
    """Return whether the Task was searched only under older rules.

    Mode `missing` then measures the schedules of the present rules.
    """
    if task is None or not is_wanted(name, options):
        return False
    return rules.device_class in task.list_lagging(rules.version)


def list_lagging(
    files: Mapping[str, TaskFile], tasks: Sequence[TaskId], options: TuneOptions, rules: Rules
) -> tuple[TaskId, ...]:
    """Return the Tasks for which `lags` is true. ``files`` come from `read_applicable_files`."""
    return tuple(task for task in tasks if lags(files.get(task.key), task.name, options, rules))


def write_tasks(path: Path, tasks: Iterable[TaskId], graph: Graph | None = None) -> None:
    """Publish `tasks.json`, with ``graph`` if the model has algorithms to choose."""
    rows = [{"key": task.key, "name": task.name, "weight": task.weight} for task in tasks]
    what = {} if graph is None else {"graph": graph.to_json()}
    write_json(path, {**what, "format": FORMAT, "tasks": sorted(rows, key=lambda row: str(row["key"]))})


def read_tasks(path: Path) -> tuple[TaskId, ...]:
    """Return the Tasks in `tasks.json`.

    Raises OSError, ValueError, KeyError or TypeError if the file is absent or damaged.
    """
    rows = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    return tuple(TaskId(str(row["key"]), str(row["name"]), int(row["weight"])) for row in rows)


def elect_all(files: Mapping[str, TaskFile], device_class: str | None) -> Schedule:
    """Return the Schedule with the winner of each Task that has one. ``files`` come from `read_applicable_files`."""
    winners = {key: elect(task, device_class) for key, task in files.items()}
    elected = {key: winner.trace for key, winner in winners.items() if winner is not None}
    return Schedule(FrozenMap(elected), blocks=FrozenMap({key: list_blocks(files[key].workload) for key in elected}))


def must_choose(options: TuneOptions, graph: Graph | None, choices: Choices) -> bool:
    """Return whether mode `missing` measures the algorithms of at least one convolution of the graph."""
    return set(options.algorithms) != {DIRECT} and graph is not None and bool(choices.list_undecided(graph))
