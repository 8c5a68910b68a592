"""The agenda of a search: its Tasks, and the ones chosen to be searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm

from tvmbuild.compiler.tasks import Task
from tvmbuild.records.selection import TaskId, is_wanted, list_missing
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook


@dataclass(frozen=True)
class Agenda:
    """All Tasks of a run that need records, and the ``chosen`` ones, which the search measures."""

    tasks: tuple[Task, ...]
    target: tvm.target.Target
    done: frozenset[str] = frozenset()
    """The keys of the Tasks that this run has searched before."""
    one_model: bool = True
    """True if the Tasks make up one model. If they compute some operations in several ways, the sum of their times is
    not the model's latency.
    """
    chosen: tuple[Task, ...] = ()


def join_agendas(agendas: Sequence[Agenda]) -> Agenda:
    """Return one agenda for all. A Task of several is searched once."""
    if len(agendas) == 1:
        return agendas[0]
    tasks = {task.key: task for each in agendas for task in each.tasks}
    return replace(agendas[0], tasks=tuple(tasks.values()), one_model=False)


def name_tasks(tasks: tuple[Task, ...]) -> tuple[TaskId, ...]:
    """Return the key, name and weight of each Task, as `tasks.json` lists them."""
    return tuple(TaskId(task.key, task.name, task.weight) for task in tasks)


def list_wanted(job: Job, book: RecordBook, agenda: Agenda) -> tuple[Task, ...]:
    """Return the Tasks that the job's mode asks to search, or an empty tuple if the job may not search.

    Mode `full` asks for all Tasks that ``ops`` selects and that are not done. Mode `missing` asks for Tasks without
    enough records, Tasks searched under older rules, and Tasks whose search was interrupted.
    """
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
    # An interrupted search left its last measurements in the journal, and did not time its best candidates again.
    missing |= {task.key for task in tasks if job.journal(task.key).exists()}
    return tuple(task for task in tasks if task.key in missing)
