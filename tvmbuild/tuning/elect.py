"""The last phase: the winner of each Task."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvmbuild.devices.lock import device_lock
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import elect_all
from tvmbuild.tuning.extract import Extracted
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.record_book import RecordBook
from tvmbuild.tuning.search import Searched
from tvmbuild.tuning.verify import verify_winners


@dataclass(frozen=True)
class Elected:
    """Who won, and what could not."""

    schedule: Schedule
    quarantined: list[dict[str, str]]
    """As `tune.json` says it."""


def elect(job: Job, book: RecordBook, extracted: Extracted, searched: Searched) -> Elected:
    """Return the winners, each of which has been replayed here; what failed of what was searched goes."""
    tasks = extracted.tasks
    with device_lock("local", exclusive=False):
        schedule = elect_all(verify_winners(job, book, tasks), job.measured_on)
    keys = {task.key for task in tasks}
    book.drop_failed(task for task in searched.tasks if task.key in keys)
    return Elected(replace(schedule, algorithms=extracted.algorithms), book.list_quarantined(tasks))
