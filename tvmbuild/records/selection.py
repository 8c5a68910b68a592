"""The election of winners: from record files to a cell's Schedule. This module imports no tvm."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from tvmbuild.base.files import canonical_json, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import Attributes, TuneOptions
from tvmbuild.records.block_names import list_blocks
from tvmbuild.records.choices import DIRECT, Choices, Graph
from tvmbuild.records.quarantine import has_file_fault, leave_out, read_faults
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.store import DamagedRecordsError, Read, read_task_file, record_path
from tvmbuild.records.task_file import Record, ResolvedTarget, TaskFile, code_of

FORMAT = 1
RULE_TRIALS = 4
"""The candidates of a Task that was searched under older rules: the best schedules of the present rules."""


@dataclass(frozen=True)
class TaskId:
    """One Task as `tasks.json` describes it."""

    key: str
    name: str
    weight: int
    """The number of calls in the model."""


@dataclass(frozen=True)
class Rules:
    """The version of a kind's rules, and the device class that would measure them (None if unknown)."""

    version: int
    device_class: str | None


class ForTarget(Protocol):
    """The target facts that records depend on, for example of a step's options."""

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
    """Return the target that a record must match to be used for these options."""
    return ResolvedTarget(options.kind, options.attributes, options.host)


def read_applicable(folder: Path, key: str, target: ResolvedTarget, read: Read = read_task_file) -> TaskFile | None:
    """Return the usable part of the Task's file: made for these attributes, without quarantined records.

    None if there is no such file, or if it is damaged or quarantined. ``folder`` is `records/<target>`.
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
    """Return Task key → file, sorted, for the Tasks that have an applicable file."""
    found = {key: read_applicable(folder, key, target, read) for key in sorted(set(keys))}
    return {key: task for key, task in found.items() if task is not None}


def elect(task: TaskFile, device_class: str | None) -> Record | None:
    """Return the fastest record of the device class; if it has none, of the first class that has one.

    Times of different classes are never compared, so exactly one class counts.
    """
    classes = sorted({record.measured_on for record in task.records})
    if not classes:
        return None
    chosen = device_class if device_class in classes else classes[0]
    return task.best_on(chosen)[0]


def wanted_trials(options: TuneOptions, tasks: int) -> int:
    """Return how many candidates each of a cell's ``tasks`` Tasks gets: at least one.

    The number is trials_per_task, limited by the cell's ``trials``.
    """
    if options.trials is None:
        return options.trials_per_task
    return min(options.trials_per_task, max(1, options.trials // max(1, tasks)))


def is_wanted(name: str, options: TuneOptions) -> bool:
    """Return whether ``ops`` lets a Task of that name be searched, in any mode."""
    return any(fnmatchcase(name, pattern) for pattern in options.ops)


def needs_search(task: TaskFile | None, name: str, options: TuneOptions, tasks: int) -> bool:
    """Return whether mode `missing` searches this Task: ``ops`` wants it, and no device class has done enough."""
    if not is_wanted(name, options):
        return False
    if task is None:
        return True
    over = task.exhausted or task.is_settled(options.patience)
    return not over and task.most_searched < wanted_trials(options, tasks)


def list_missing(files: Mapping[str, TaskFile], tasks: Sequence[TaskId], options: TuneOptions) -> tuple[TaskId, ...]:
    """Return the Tasks of a cell that mode `missing` searches; ``files`` come from `read_applicable_files`."""
    return tuple(task for task in tasks if needs_search(files.get(task.key), task.name, options, len(tasks)))


def lags(task: TaskFile | None, name: str, options: TuneOptions, rules: Rules) -> bool:
    """Return whether mode `missing` measures the rules' schedules, because the Task was searched under older rules."""
    if task is None or not is_wanted(name, options):
        return False
    return rules.device_class in task.list_lagging(rules.version)


def list_lagging(
    files: Mapping[str, TaskFile], tasks: Sequence[TaskId], options: TuneOptions, rules: Rules
) -> tuple[TaskId, ...]:
    """Return the Tasks of a cell's ``tasks`` that lag; ``files`` come from `read_applicable_files`."""
    return tuple(task for task in tasks if lags(files.get(task.key), task.name, options, rules))


def write_tasks(path: Path, tasks: Iterable[TaskId], graph: Graph | None = None) -> None:
    """Publish `tasks.json`, with ``graph`` if it has algorithms to choose."""
    rows = [{"key": task.key, "name": task.name, "weight": task.weight} for task in tasks]
    what = {} if graph is None else {"graph": graph.to_json()}
    write_json(path, {**what, "format": FORMAT, "tasks": sorted(rows, key=lambda row: str(row["key"]))})


def read_tasks(path: Path) -> tuple[TaskId, ...]:
    """Return the Tasks of `tasks.json`; OSError, ValueError, KeyError or TypeError if it is absent or damaged."""
    rows = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    return tuple(TaskId(str(row["key"]), str(row["name"]), int(row["weight"])) for row in rows)


def elect_all(files: Mapping[str, TaskFile], device_class: str | None) -> Schedule:
    """Return the winner of each Task that has one; ``files`` come from `read_applicable_files`."""
    winners = {key: elect(task, device_class) for key, task in files.items()}
    elected = {key: winner.trace for key, winner in winners.items() if winner is not None}
    return Schedule(FrozenMap(elected), blocks=FrozenMap({key: list_blocks(files[key].workload) for key in elected}))


def must_choose(options: TuneOptions, graph: Graph | None, choices: Choices) -> bool:
    """Return whether mode `missing` measures the algorithms of a convolution."""
    return set(options.algorithms) != {DIRECT} and graph is not None and bool(choices.list_undecided(graph))
