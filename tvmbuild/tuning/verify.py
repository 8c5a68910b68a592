"""The second phase of tuning: quarantine records that do not replay here before anything is searched or elected."""

from __future__ import annotations

from dataclasses import replace

from tvmbuild.base.progress import report_progress
from tvmbuild.compiler.tasks import Task
from tvmbuild.devices.lock import device_lock
from tvmbuild.records.quarantine import Fault
from tvmbuild.records.selection import elect
from tvmbuild.records.store import record_path
from tvmbuild.records.task_file import TaskFile
from tvmbuild.replay.traces import dump_workload
from tvmbuild.replay.verification import Subject, verify_records
from tvmbuild.tuning.agenda import Agenda, list_wanted
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook


def verify(job: Job, book: RecordBook, agenda: Agenda) -> Agenda:
    """Replay all records from which a search may start. Return the agenda with the Tasks to search as ``chosen``."""
    with device_lock("local", exclusive=False):
        verify_winners(job, book, agenda.tasks)
        chosen = list_wanted(job, book, agenda)
        if chosen:
            report_progress("checking the records that the search starts from")
            _verify_starts(job, book, chosen)
    return replace(agenda, chosen=chosen)


def verify_winners(job: Job, book: RecordBook, tasks: tuple[Task, ...]) -> dict[str, TaskFile]:
    """Return Task key → usable part of its record file, after its winner has replayed here.

    A record that fails is quarantined and the next best one is tried. A damaged file, or a file with another workload,
    is quarantined as a whole, with a copy of its bytes.
    """
    workloads = _dump_workloads(tasks)
    for key, reason in book.keep_damaged(workloads).items():
        _say(job, tasks, key, reason)
    while True:
        files = book.files(workloads)
        winners = {key: elect(file, job.measured_on) for key, file in files.items()}
        known = {key: (winner,) for key, winner in winners.items() if winner}
        if not _replay(job, tasks, [Subject(file, known.get(key, ()), workloads[key]) for key, file in files.items()]):
            return files


def _verify_starts(job: Job, book: RecordBook, chosen: tuple[Task, ...]) -> None:
    """Replay all records that a search of the ``chosen`` Tasks may start from: their own and foreign ones."""
    workloads = _dump_workloads(chosen)
    known = book.files(workloads)
    files = [known.get(task.key) or book.new_file(task, workloads[task.key]) for task in chosen]
    _replay(job, chosen, [Subject(f, (*f.records, *book.list_foreign(f)), workloads[f.key]) for f in files])


def _replay(job: Job, tasks: tuple[Task, ...], subjects: list[Subject]) -> dict[str, tuple[Fault, ...]]:
    found = verify_records(job.records, subjects)
    for key, faults in found.items():
        for fault in faults:
            _say(job, tasks, key, fault.reason)
    return found


def _say(job: Job, tasks: tuple[Task, ...], key: str, reason: str) -> None:
    name = next(task.name for task in tasks if task.key == key)
    path = record_path(job.records, key).relative_to(job.layout.root)
    line = f"{name}: {path} is not used as it is: {reason}"
    report_progress(line)
    print(line)


def _dump_workloads(tasks: tuple[Task, ...]) -> dict[str, str]:
    return {task.key: dump_workload(task.mod) for task in tasks}
