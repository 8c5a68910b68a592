"""The tuning of a cell, read from its Tasks' record files and courses. This module imports nothing slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmbuild.base.layout import Layout
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.course import Course, follow, read_course
from tvmbuild.records.journal import read_entries
from tvmbuild.records.selection import TaskId, read_tasks
from tvmbuild.records.store import read_task_file, record_path


@dataclass(frozen=True)
class TunedTask:
    """One Task of a cell, with its record file and its search."""

    task: TaskId
    record: str | None
    """The path of its record file, relative to the project's root, or None if there is none."""
    device_class: str | None = None
    """The device class of ``course``, or else the one that measured most.

    None if nothing was measured or the record file is damaged.
    """
    candidates: int = 0
    """The number of candidates measured on that device class."""
    seconds: float | None = None
    """The best time of one call on that device class, in seconds, or None if there is none."""
    course: Course | None = None
    """The course of the best time in the searches of this clone, or None if other clones searched the Task."""
    is_searched: bool = False
    """True if a search of the Task is running or was interrupted."""


@dataclass(frozen=True)
class Tuning:
    """The Tasks that take most of a cell's known time. ``of`` is the number of all its Tasks."""

    tasks: tuple[TunedTask, ...] = ()
    of: int = 0


UNTUNED = Tuning()
"""The tuning of a cell about which nothing is known."""


def collect_tuning(layout: Layout, model: str, target: str, first: Sequence[str], limit: int) -> Tuning:
    """Return at most ``limit`` Tasks of the cell: those with the keys ``first``, in this order, then those called most.

    The result is empty if the cell was not tuned, or if its tasks.json is damaged.
    """
    try:
        tasks = read_tasks(layout.cell_file(model, target, "tasks.json"))
    except (OSError, ValueError, KeyError, TypeError):
        return UNTUNED
    place = {key: index for index, key in enumerate(dict.fromkeys(first))}
    ordered = sorted(tasks, key=lambda task: (place.get(task.key, len(place)), -task.weight, task.key))
    return Tuning(tuple(_look_up(layout, target, task) for task in ordered[:limit]), len(tasks))


def _look_up(layout: Layout, target: str, task: TaskId) -> TunedTask:
    path, journal = record_path(layout.records(target), task.key), layout.journal(target, task.key)
    try:
        file = read_task_file(path)
    except TvmbuildError:
        file = None
    if file is None:
        shown = str(path.relative_to(layout.root)) if path.exists() else None
        return TunedTask(task, shown, is_searched=journal.exists())
    course = read_course(layout.course(target, task.key))
    if journal.exists():
        course = follow(read_entries(journal), course)
    most = max(file.classes, key=file.searched_on, default=None)
    device_class = course.device_class if course else most
    best = file.best_on(device_class) if device_class else ()
    return TunedTask(
        task=task,
        record=str(path.relative_to(layout.root)),
        device_class=device_class,
        candidates=file.searched_on(device_class) if device_class else 0,
        seconds=best[0].seconds if best else None,
        course=course,
        is_searched=journal.exists(),
    )
