"""What one round of searching is about, and which of its Tasks are to be searched."""

from __future__ import annotations

from dataclasses import dataclass

import tvm

from tvmbuild.compiler.tasks import Task
from tvmbuild.records.selection import TaskId, is_wanted, list_missing
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook


@dataclass(frozen=True)
class Agenda:
    """Tasks that want records, and those of them that are ``chosen`` to be searched."""

    tasks: tuple[Task, ...]
    target: tvm.target.Target
    done: frozenset[str] = frozenset()
    """Keys of those that this run has searched before."""
    one_model: bool = True
    """False: the Tasks compute some of it in several ways, and their sum is no latency."""
    chosen: tuple[Task, ...] = ()


def name_tasks(tasks: tuple[Task, ...]) -> tuple[TaskId, ...]:
    """Return what `tasks.json` says of them."""
    return tuple(TaskId(task.key, task.name, task.weight) for task in tasks)


def list_wanted(job: Job, book: RecordBook, agenda: Agenda) -> tuple[Task, ...]:
    """Return the Tasks that the mode asks to be searched; none where nothing may be."""
    tasks = agenda.tasks
    if not job.may_search:
        return ()
    if job.mode == "full":
        return tuple(task for task in tasks if is_wanted(task.name, job.options) and task.key not in agenda.done)
    files = book.files(task.key for task in tasks)
    names = name_tasks(tasks)
    missing = {task.key for task in list_missing(files, names, job.options)}
    for task in tasks:
        if task.key in files and is_wanted(task.name, job.options) and book.lags(files[task.key]):
            missing.add(task.key)
    # An interrupted search: its last measurements are in the journal, and its best were not timed again.
    missing |= {task.key for task in tasks if job.journal(task.key).exists()}
    return tuple(task for task in tasks if task.key in missing)
