"""Winners: from record files to a cell's Schedule, and whether a Schedule is still current. No tvm here."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from tvmbuild.errors import TvmbuildError
from tvmbuild.files import canonical_json, pretty_json, write_json
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.layout import Layout
from tvmbuild.records.block_names import list_blocks
from tvmbuild.records.choices import DIRECT, Choices, Graph, read_choices, read_graph
from tvmbuild.records.quarantine import find_damage, has_file_fault, leave_out, read_faults
from tvmbuild.records.store import DamagedRecordsError, Read, read_task_file, record_path
from tvmbuild.records.task_file import Record, ResolvedTarget, TaskFile
from tvmbuild.specs import Attributes, TuneOptions, is_timed
from tvmbuild.steps import Step, TuneStep

FORMAT = 1


@dataclass(frozen=True)
class TaskId:
    """What `tasks.json` says of one Task."""

    key: str
    name: str
    weight: int
    """How many times the model calls it."""


@dataclass(frozen=True)
class Schedule:
    """The winning traces that one cell uses."""

    traces: FrozenMap[str, str]
    """Task key → canonical JSON text of the trace, sorted."""
    layout: str | None = None
    """The graph's measured layout; None: the default."""
    algorithms: FrozenMap[str, str] = FrozenMap()
    """The measured algorithms: convolution's signature → algorithm, sorted; only those that are not the default."""
    blocks: FrozenMap[str, tuple[str, ...]] = FrozenMap()
    """Task key → names of the blocks of the workload that its winner was recorded for, sorted."""

    def to_json(self) -> dict[str, object]:
        """Return the value of `schedule.json`: no times, counts or dates, so the same winners are the same bytes."""
        traces = {key: json.loads(self._pretty(key)) for key in self.traces}
        return {**self._frame(), "schedule": traces}

    def to_text(self) -> str:
        """Return what `write_json` makes of `to_json`; a winner that many cells share is formatted once."""
        frame = pretty_json({**self._frame(), "schedule": {}})
        if not self.traces:
            return frame
        rows = ",\n".join(f"  {json.dumps(key)}: {self._pretty(key)}" for key in self.traces)
        return frame.replace('"schedule": {}', f'"schedule": {{\n{rows}\n }}')

    def _frame(self) -> dict[str, object]:
        chosen = {"algorithms": self.algorithms} if self.algorithms else {}
        return {**chosen, "format": FORMAT, "layout": self.layout}

    def _pretty(self, key: str) -> str:
        return _pretty_winner(self.traces[key], self.blocks.get(key, ()))


@functools.lru_cache(maxsize=1024)
def _pretty_winner(trace: str, blocks: tuple[str, ...]) -> str:
    named = {"blocks": list(blocks)} if blocks else {}
    return pretty_json({**named, "trace": json.loads(trace)}).rstrip().replace("\n", "\n  ")


class ForTarget(Protocol):
    """What code is generated for: the options of a step, say."""

    @property
    def kind(self) -> str:
        """Return the target's kind."""

    @property
    def attributes(self) -> Attributes:
        """Return its attributes."""

    @property
    def host(self) -> Attributes:
        """Return those of the CPU beside a GPU."""


def resolved_target(options: ForTarget) -> ResolvedTarget:
    """Return what a record's target must equal to be used for these options."""
    return ResolvedTarget(options.kind, options.attributes, options.host)


def read_applicable(folder: Path, key: str, target: ResolvedTarget, read: Read = read_task_file) -> TaskFile | None:
    """Return what may be used of the Task's file: it was made for exactly these attributes, and is not in quarantine.

    None: there is no such file, or it is damaged. Its records in quarantine are left out. ``folder`` is
    `records/<target>`.
    """
    path, wanted = record_path(folder, key), canonical_json(target.to_json())
    try:
        task = read(path)
    except DamagedRecordsError:
        return None
    if task is None or task.key != key or task.target != wanted:
        return None
    faults = read_faults(folder, key, wanted)
    return None if has_file_fault(path, faults) else leave_out(task, faults)


def read_applicable_files(
    folder: Path, keys: Iterable[str], target: ResolvedTarget, read: Read = read_task_file
) -> dict[str, TaskFile]:
    """Return Task key → file, sorted, of the Tasks that have an applicable file."""
    found = {key: read_applicable(folder, key, target, read) for key in sorted(set(keys))}
    return {key: task for key, task in found.items() if task is not None}


def elect(task: TaskFile, device_class: str | None) -> Record | None:
    """Return the fastest record of the device class; where it has none, of the first class that has one.

    Times of different classes are never compared: exactly one class is looked at.
    """
    classes = sorted({record.measured_on for record in task.records})
    if not classes:
        return None
    chosen = device_class if device_class in classes else classes[0]
    return task.best_on(chosen)[0]


def wanted_trials(options: TuneOptions, tasks: int) -> int:
    """Return how many candidates each of a cell's ``tasks`` Tasks gets.

    That is trials_per_task, within ``trials`` for the cell; but one at least.
    """
    if options.trials is None:
        return options.trials_per_task
    return min(options.trials_per_task, max(1, options.trials // max(1, tasks)))


def is_wanted(name: str, options: TuneOptions) -> bool:
    """Say whether ``ops`` lets a Task of that name be searched, whatever the mode."""
    return any(fnmatchcase(name, pattern) for pattern in options.ops)


def needs_search(task: TaskFile | None, name: str, options: TuneOptions, tasks: int) -> bool:
    """Say whether mode `missing` searches this Task: wanted by ``ops``, and no device class has done enough."""
    if not is_wanted(name, options):
        return False
    if task is None:
        return True
    over = task.exhausted or task.is_settled(options.patience)
    return not over and task.most_searched < wanted_trials(options, tasks)


def list_missing(files: Mapping[str, TaskFile], tasks: Sequence[TaskId], options: TuneOptions) -> tuple[TaskId, ...]:
    """Return those of a cell's ``tasks`` that mode `missing` searches; ``files`` are read_applicable_files'."""
    return tuple(task for task in tasks if needs_search(files.get(task.key), task.name, options, len(tasks)))


def write_tasks(path: Path, tasks: Iterable[TaskId], graph: Graph | None = None) -> None:
    """Publish `tasks.json`; ``graph`` where there is something to choose."""
    rows = [{"key": task.key, "name": task.name, "weight": task.weight} for task in tasks]
    what = {} if graph is None else {"graph": graph.to_json()}
    write_json(path, {**what, "format": FORMAT, "tasks": sorted(rows, key=lambda row: str(row["key"]))})


def read_tasks(path: Path) -> tuple[TaskId, ...]:
    """Return the Tasks of `tasks.json`; OSError, ValueError, KeyError or TypeError when it is absent or damaged."""
    rows = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    return tuple(TaskId(str(row["key"]), str(row["name"]), int(row["weight"])) for row in rows)


def elect_all(files: Mapping[str, TaskFile], device_class: str | None) -> Schedule:
    """Return the winner of each Task that has one; ``files`` are read_applicable_files'."""
    winners = {key: elect(task, device_class) for key, task in files.items()}
    elected = {key: winner.trace for key, winner in winners.items() if winner is not None}
    return Schedule(FrozenMap(elected), blocks=FrozenMap({key: list_blocks(files[key].workload) for key in elected}))


def is_current(step: Step[TuneStep]) -> str | None:
    """Return None when the tune step's Schedule is what the record files elect, else the reason to run it."""
    options = step.options
    if step.settings.tune == "full" and is_timed(options.device):
        return "tune=full was asked for"
    try:
        tasks, graph = read_tasks(step.output("tasks")), read_graph(step.output("tasks"))
        schedule = step.output("schedule").read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its outputs are missing or damaged"
    folder = Layout(step.root).records(options.target)
    try:
        files = read_applicable_files(folder, (task.key for task in tasks), resolved_target(options))
        choices = read_choices(folder, graph, resolved_target(options))
    except TvmbuildError as error:
        return error.message
    algorithms = choices.algorithms(options.tune.algorithms)
    reason = None
    if algorithms != _read_algorithms(schedule):
        reason = "other algorithms are chosen now"
    elif replace(elect_all(files, options.measured_on), algorithms=algorithms).to_text() != schedule:
        reason = "other records win now"
    elif step.settings.tune == "missing" and is_timed(options.device):
        reason = _explain_search(step, tasks, files)
        if must_choose(options.tune, graph, choices):
            reason = reason or "how its convolutions are best computed was not measured"
    if choices.problem is not None and reason is not None:
        reason = f"{reason}; {choices.problem}"
    return reason and "; ".join((reason, *_list_damage(folder, tasks)))


def _explain_search(step: Step[TuneStep], tasks: Sequence[TaskId], files: Mapping[str, TaskFile]) -> str | None:
    options = step.options
    if any(Layout(step.root).journal(options.target, task.key).exists() for task in tasks):
        return "a search was interrupted: its measurements are to be taken in, its best to be timed again"
    missing = [task.name for task in list_missing(files, tasks, options.tune)]
    return f"{len(missing)} of {len(tasks)} Tasks lack records: {', '.join(missing[:3])}" if missing else None


def must_choose(options: TuneOptions, graph: Graph | None, choices: Choices) -> bool:
    """Say whether mode `missing` measures how a convolution is best computed."""
    return set(options.algorithms) != {DIRECT} and graph is not None and bool(choices.list_undecided(graph))


def _read_algorithms(schedule: str) -> FrozenMap[str, str] | None:
    try:
        return FrozenMap(sorted(json.loads(schedule).get("algorithms", {}).items()))
    except (ValueError, AttributeError):
        return None


def _list_damage(folder: Path, tasks: Iterable[TaskId]) -> tuple[str, ...]:
    damage = {path: find_damage(path) for path in (record_path(folder, task.key) for task in tasks)}
    return tuple(f"{path}: {what}" for path, what in damage.items() if what)
