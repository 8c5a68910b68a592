"""The check whether a tune step's Schedule is the one that the record files elect now, and the reason if it is not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Step, TuneStep, list_sizes
from tvmbuild.base.wording import count
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.choices import Choices, Graph, read_choices, read_graph
from tvmbuild.records.quarantine import find_damage
from tvmbuild.records.selection import (
    Rules,
    TaskId,
    elect_all,
    list_lagging,
    list_missing,
    must_choose,
    read_applicable_files,
    read_tasks,
    resolved_target,
)
from tvmbuild.records.store import record_path
from tvmbuild.records.task_file import TaskFile


@dataclass(frozen=True)
class Outdated:
    """The reasons why a tune step must run, as sentences with paths relative to the project's root."""

    reason: str
    absent: tuple[str, ...] = ()
    """The record files that count as absent, each with its fault."""


@dataclass(frozen=True)
class _Outputs:
    """The contents of the files that the step has written."""

    tasks: tuple[TaskId, ...]
    graph: Graph | None
    schedule: str
    """The text of `schedule.json`."""


def find_outdated(step: Step[TuneStep]) -> Outdated | None:
    """Return why the tune step must run, or None if its Schedule is the one that the record files elect now."""
    options, target = step.options, resolved_target(step.options)
    if step.settings.tune == "full" and options.device.is_timed:
        return Outdated("tune=full was asked for")
    outputs = _read_outputs(step)
    if outputs is None:
        return Outdated("its outputs are missing or damaged")
    folder = Layout(step.root).records(options.target)
    tasks = tuple({task.key: task for each in outputs for task in each.tasks}.values())
    try:
        files = read_applicable_files(folder, (task.key for task in tasks), target)
        choices = [read_choices(folder, each.graph, target) for each in outputs]
    except TvmbuildError as error:
        return Outdated(_shorten(error.message, step))
    reason = _compare(step, outputs, files, choices)
    if reason is None:
        return None
    problems = dict.fromkeys(_shorten(each.problem, step) for each in choices if each.problem is not None)
    return Outdated(reason, (*problems, *_list_damage(folder, step, tasks)))


def _read_outputs(step: Step[TuneStep]) -> tuple[_Outputs, ...] | None:
    """Read the tune step's output files of each size. None: one of them is damaged."""
    try:
        return tuple(
            _Outputs(
                read_tasks(step.output(f"tasks{suffix}")),
                read_graph(step.output(f"tasks{suffix}")),
                step.output(f"schedule{suffix}").read_text(encoding="utf-8"),
            )
            for suffix in ([f" {size}" for size in list_sizes(step, "tasks")] or [""])
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _compare(
    step: Step[TuneStep], outputs: Sequence[_Outputs], files: Mapping[str, TaskFile], all_choices: Sequence[Choices]
) -> str | None:
    """Return the first difference from the present, or the measurements still needed, or None if there is neither."""
    options = step.options
    for each, choices in zip(outputs, all_choices, strict=True):
        algorithms = choices.algorithms(each.graph, options.tune.algorithms)
        if algorithms != _read_algorithms(each.schedule):
            return "other algorithms are chosen now"
        own = {key: files[key] for key in sorted({task.key for task in each.tasks}) if key in files}
        if replace(elect_all(own, options.measured_on), algorithms=algorithms).to_text() != each.schedule:
            return "other records win now"
    if step.settings.tune != "missing" or not options.device.is_timed:
        return None
    tasks = tuple({task.key: task for each in outputs for task in each.tasks}.values())
    reason = _explain_search(step, tasks, files)
    pairs = zip(outputs, all_choices, strict=True)
    if reason is None and any(must_choose(options.tune, each.graph, choices) for each, choices in pairs):
        return "how its convolutions are best computed was not measured"
    return reason


def _explain_search(step: Step[TuneStep], tasks: Sequence[TaskId], files: Mapping[str, TaskFile]) -> str | None:
    options = step.options
    if any(Layout(step.root).journal(options.target, task.key).exists() for task in tasks):
        return "a search was interrupted: its measurements are to be taken in, its best to be timed again"
    missing = [task.name for task in list_missing(files, tasks, options.tune)]
    if missing:
        return f"{len(missing)} of {count(len(tasks), 'Task')} not fully searched: {', '.join(missing[:3])}"
    lagging = list_lagging(files, tasks, options.tune, Rules(options.rules, options.timed_on))
    return f"{len(lagging)} of {count(len(tasks), 'Task')} searched before a rule changed" if lagging else None


def _read_algorithms(schedule: str) -> FrozenMap[str, str] | None:
    try:
        return FrozenMap(sorted(json.loads(schedule).get("algorithms", {}).items()))
    except (ValueError, AttributeError):
        return None


def _list_damage(folder: Path, step: Step[TuneStep], tasks: Iterable[TaskId]) -> Iterator[str]:
    for path in (record_path(folder, task.key) for task in tasks):
        damage = find_damage(path)
        if damage:
            yield f"{path.relative_to(step.root)}: {damage}"


def _shorten(text: str, step: Step[TuneStep]) -> str:
    return text.replace(f"{step.root}/", "")
