"""The record files of a run: their usable records, and when the results of searches are written to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

from tvmbuild.base.files import remove_leftovers, sync
from tvmbuild.compiler.tasks import Task
from tvmbuild.devices.table import device_kind
from tvmbuild.errors import TvmbuildError
from tvmbuild.records import quarantine, seeds
from tvmbuild.records.block_names import records_for
from tvmbuild.records.course import follow, read_course, write_course
from tvmbuild.records.journal import Entry, absorb, append_entry, digest_target, read_entries
from tvmbuild.records.merge import merge_files
from tvmbuild.records.reader import RecordReader
from tvmbuild.records.selection import read_applicable, read_applicable_files
from tvmbuild.records.store import record_path
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.replay.traces import dump_trace, dump_workload
from tvmbuild.tuning.batches import Batch
from tvmbuild.tuning.candidate_pool import Timed
from tvmbuild.tuning.job import Job
from tvmbuild.tuning.task_search import TaskSearch


@dataclass
class _Open:
    """A Task's record file while the Task is searched."""

    file: TaskFile
    on_disk: TaskFile
    """The file as it was last read or written."""
    counted: int
    """The number of candidates that this device class has measured, including the unfinished batch."""
    trusted: set[str] = field(default_factory=set)
    """The traces that have replayed or were measured here."""
    fresh: list[Record] = field(default_factory=list)
    """The records that the unfinished batch has found."""


class RecordBook:
    """The record files of a job's Tasks. Each is read once, and again after another process has written it.

    Every change is on disk when the method returns.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._reader = RecordReader()
        self._open: dict[str, _Open] = {}

    @cached_property
    def device_class(self) -> str:
        """The device class that times candidates. Finding it may require a query to the device."""
        return device_kind(self._job.device).find_device_class(self._job.device, self._job.kind, self._job.measured_on)

    def lags(self, file: TaskFile) -> bool:
        """Return whether this device class has searched the file's Task, but only under older versions of the rules."""
        lagging = file.list_lagging(self._job.rules)
        return bool(lagging) and self.device_class in lagging  # the device is queried last, because it may be a board

    # Reading.

    def files(self, keys: Iterable[str]) -> dict[str, TaskFile]:
        """Return Task key → usable part of its record file, sorted by key. Tasks without a usable file are omitted."""
        return read_applicable_files(self._job.records, keys, self._job.resolved, self._reader.read)

    def file(self, key: str) -> TaskFile | None:
        """Return the usable part of the Task's record file, or None if there is no usable file."""
        return read_applicable(self._job.records, key, self._job.resolved, self._reader.read)

    def new_file(self, task: Task, workload: str) -> TaskFile:
        """Return an empty record file for a Task that has none. ``workload`` is its workload as JSON text."""
        return TaskFile(task.key, task.name, workload, self._job.target_text, version("apache-tvm"))

    def list_foreign(self, file: TaskFile) -> tuple[Record, ...]:
        """Return schedules that other machines or targets have found for the file's Task. They are not verified yet."""
        return seeds.list_foreign(self._job.layout, file, self.device_class, self._reader.read)

    def keep_damaged(self, keys: Iterable[str]) -> dict[str, str]:
        """Quarantine damaged record files, with a copy of their bytes. Return Task key → damage."""
        return quarantine.keep_damaged(self._job.records, keys, self._job.target_text, self._reader.read)

    def list_quarantined(self, tasks: Iterable[Task]) -> list[dict[str, str]]:
        """Return the quarantined records that the Tasks' files hold, in the form of `tune.json`."""
        return [
            {"key": task.key, "name": task.name, "of": fault.of, "reason": fault.reason}
            for task in tasks
            for fault in quarantine.list_faults(self._job.records, task.key, self._job.target_text, self._reader.read)
        ]

    def drop_failed(self, searched: Iterable[Task]) -> None:
        """Remove quarantined records from the record files of the searched Tasks."""
        for task in searched:
            path = record_path(self._job.records, task.key)
            file = self._reader.read(path)
            faults = quarantine.read_faults(self._job.records, task.key, self._job.target_text)
            bad = {fault.sha256 for fault in faults}
            if file is not None and any(quarantine.digest(record.trace) in bad for record in file.records):
                kept = tuple(record for record in file.records if quarantine.digest(record.trace) not in bad)
                self._reader.write(path, replace(file, records=kept))

    # Writing during a search.

    def open(self, task: Task) -> TaskFile:
        """Return the Task's record file, with the journal of an interrupted search added.

        Without a file, a new one is returned. The file belongs to this search until `close`.
        """
        if task.key not in self._open:
            on_disk, file = self._take_up(task)
            trusted = {record.trace for record in file.records}
            self._open[task.key] = _Open(file, on_disk, file.searched_on(self.device_class), trusted)
        return self._open[task.key].file

    def best_here(self, task: Task) -> tuple[Record, ...]:
        """Return the records of the Task that this machine's device class has measured, the fastest first."""
        known = self._open.get(task.key)
        return (known.file if known else self._take_up(task)[1]).best_on(self.device_class)

    def best_trusted(self, task: Task) -> tuple[Record, ...]:
        """Return the records of `best_here` whose traces have replayed or were measured here. The Task must be open.

        Records that other processes add during the search are left out, because they have not replayed here.
        """
        trusted = self._open[task.key].trusted
        return tuple(record for record in self.best_here(task) if record.trace in trusted)

    def journal(self, search: TaskSearch, candidate: Any, timed: Timed) -> None:
        """Append one measured candidate to the journal. It enters the record file with its batch.

        Raises TvmbuildError if the journal cannot be written.
        """
        known, record = self._open[search.task.key], None
        if timed.samples:
            trace, seconds = dump_trace(search.record(candidate, timed)), _rounded(timed.seconds)
            record = Record(trace, seconds, self.device_class, self._job.threads, version("apache-tvm"))
            known.fresh.append(record)
            known.trusted.add(trace)
        known.counted += 1
        entry = Entry(self.device_class, known.counted, record, digest_target(known.file))
        append_entry(self._job.journal(search.task.key), entry)

    def add(self, batch: Batch) -> None:
        """Write a batch's journaled measurements to the record file of its Task."""
        key = batch.search.task.key
        known = self._open[key]
        found, known.fresh = tuple(known.fresh), []
        file = self._take_in(key).with_results(self.device_class, found, len(batch.timed), batch.seconds)
        self._publish(key, self._with_rules(file, batch.search))

    def close(self, search: TaskSearch, times: Mapping[Record, float | None], *, some_were_wrong: bool = False) -> None:
        """Write the new times of the best records and how the search ended. Replace its journal by a course.

        A time of None means that the record did not run again or computes wrong outputs, so its first time must not
        win. Raises TvmbuildError if none of several records ran, unless ``some_were_wrong``: the machine is then at
        fault, and the journal stays for the next run.
        """
        key = search.task.key
        failed = {record.trace for record, seconds in times.items() if seconds is None}
        if len(failed) == len(times) > 1 and not some_were_wrong:
            raise TvmbuildError(
                f"none of the best schedules of the Task {search.task.name} ({key}) ran when they were timed again",
                "make room in the temporary folder (TMPDIR) and free memory; what was measured is kept",
            )
        again = [replace(record, seconds=_rounded(seconds)) for record, seconds in times.items() if seconds is not None]
        file = self._take_in(key)
        kept = [each for each in file.records if each.measured_on != self.device_class or each.trace not in failed]
        file = replace(file, records=tuple(kept)).with_times(tuple(again))
        if search.exhausted:
            file = file.with_exhausted(self.device_class)
        elif search.settled:
            file = file.with_settled(self.device_class, search.curve.stale)
        self._publish(key, self._with_rules(file, search))
        sync(record_path(self._job.records, key))
        course = follow(read_entries(self._job.journal(key)), read_course(self._job.course(key)))
        if course is not None:
            write_course(self._job.course(key), course)
        self._job.journal(key).unlink(missing_ok=True)
        del self._open[key]

    def _with_rules(self, file: TaskFile, search: TaskSearch) -> TaskFile:
        return file.with_rules(self.device_class, self._job.rules) if search.has_rules else file

    def _take_up(self, task: Task) -> tuple[TaskFile, TaskFile]:
        """Return the Task's record file as it is on disk, and with its journal added. Without a file, both are new."""
        remove_leftovers(record_path(self._job.records, task.key))
        file = self.file(task.key) or self.new_file(task, dump_workload(task.mod))
        return file, absorb(file, read_entries(self._job.journal(task.key)))

    def _take_in(self, key: str) -> TaskFile:
        """Return the open file, merged with changes that others (a git pull, a merge) have written to disk since."""
        known, there = self._open[key], self.file(key)
        if there is None or there == known.on_disk:
            return known.file
        # The search keeps its own block names.
        theirs = replace(there, workload=known.file.workload, records=records_for(known.file.workload, there))
        return merge_files(theirs, known.file)

    def _publish(self, key: str, file: TaskFile) -> None:
        self._open[key].file = self._open[key].on_disk = file
        self._reader.write(record_path(self._job.records, key), file)


def _rounded(seconds: float) -> float:
    """Round a time to four digits, because a timing is no more exact and git diffs stay readable."""
    return float(f"{seconds:.4g}")
