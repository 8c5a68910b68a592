"""What a tune step does before it trusts a record: damaged files count as absent, winners are replayed first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.compiler.tasks import Task
from tvmbuild.files import canonical_json
from tvmbuild.layout import Layout
from tvmbuild.progress import report_progress
from tvmbuild.records.quarantine import Fault, digest, installed_tvm, keep_damaged, list_faults, read_faults
from tvmbuild.records.seeds import list_foreign
from tvmbuild.records.selection import Schedule, elect, read_applicable_files, resolved_target, select_schedule
from tvmbuild.records.store import Record, TaskFile, read_task_file, record_path, write_task_file
from tvmbuild.replay.traces import dump_workload
from tvmbuild.replay.verification import Subject, verify_records
from tvmbuild.steps import Step, TuneStep


@dataclass(frozen=True)
class CheckedRecords:
    """The record files of a cell's Tasks, as far as they can be trusted."""

    layout: Layout
    options: TuneStep
    tasks: tuple[Task, ...]
    workloads: dict[str, str]
    """Task key → the workload's text."""

    @property
    def folder(self) -> Path:
        """Return the target's records."""
        return self.layout.records(self.options.target)

    @property
    def target(self) -> str:
        """Return the resolved target as record files hold it."""
        return canonical_json(resolved_target(self.options).to_json())

    def files(self) -> dict[str, TaskFile]:
        """Return Task key → what may be used of its file."""
        return read_applicable_files(self.folder, self.workloads, resolved_target(self.options))

    def elect(self) -> Schedule:
        """Return the winners: each has been replayed here. What fails goes into quarantine and the next best is tried.

        Damaged files, and files that hold another workload, go there whole; a copy of their bytes is kept.
        """
        for key, reason in keep_damaged(self.folder, self.workloads, self.target).items():
            self._say(key, reason)
        while True:
            files = self.files()
            winners = {key: elect(file, self.options.measured_on) for key, file in files.items()}
            if not self._verify(files, {key: (winner,) for key, winner in winners.items() if winner}):
                return select_schedule(self.folder, self.workloads, self.options)

    def check_for_search(self, chosen: Iterable[Task], device_class: str) -> None:
        """Replay all that a search of the ``chosen`` Tasks may start from: their own records and those of others."""
        known = self.files()
        files = {task.key: known.get(task.key) or self._new_file(task) for task in chosen}
        self._verify(
            files, {key: (*f.records, *list_foreign(self.layout, f, device_class)) for key, f in files.items()}
        )

    def _new_file(self, task: Task) -> TaskFile:
        return TaskFile(task.key, task.name, self.workloads[task.key], self.target, installed_tvm())

    def drop_failed(self, searched: Iterable[Task]) -> None:
        """Take out of the searched Tasks' files what is in quarantine: measured just now, it would be again."""
        for task in searched:
            path = record_path(self.folder, task.key)
            file = read_task_file(path)
            bad = {fault.sha256 for fault in read_faults(self.folder, task.key, self.target)}
            if file is not None and any(digest(record.trace) in bad for record in file.records):
                kept = tuple(record for record in file.records if digest(record.trace) not in bad)
                write_task_file(path, replace(file, records=kept))

    def list_quarantined(self) -> list[dict[str, str]]:
        """Return what of the files is in quarantine now, for `tune.json`."""
        return [
            {"key": task.key, "name": task.name, "of": fault.of, "reason": fault.reason}
            for task in self.tasks
            for fault in list_faults(self.folder, task.key, self.target)
        ]

    def _verify(
        self, files: Mapping[str, TaskFile], records: Mapping[str, tuple[Record, ...]]
    ) -> dict[str, tuple[Fault, ...]]:
        subjects = [Subject(file, records.get(key, ()), self.workloads[key]) for key, file in files.items()]
        found = verify_records(self.folder, subjects)
        for key, faults in found.items():
            for fault in faults:
                self._say(key, fault.reason)
        return found

    def _say(self, key: str, reason: str) -> None:
        name = next(task.name for task in self.tasks if task.key == key)
        path = record_path(self.folder, key).relative_to(self.layout.root)
        line = f"{name}: {path} is not used as it is: {reason}"
        report_progress(line)
        print(line)


def checked_records(step: Step[TuneStep], options: TuneStep, tasks: tuple[Task, ...]) -> CheckedRecords:
    """Return the cell's record files; nothing is read yet."""
    return CheckedRecords(Layout(step.root), options, tasks, {task.key: dump_workload(task.mod) for task in tasks})
