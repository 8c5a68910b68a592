"""Which Tasks of a cell have another winner now than its Schedule says, and how much it wins by."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.selection import TaskId, elect, read_applicable_files, read_tasks, resolved_target
from tvmbuild.records.task_file import Record, TaskFile

SHOWN = 5
"""Tasks named; of the others only the number is told."""


def list_winner_changes(step: Step[TuneStep]) -> list[str]:
    """Return `name (key): old time -> new time` of each such Task of a tune step; nothing if files are unreadable."""
    options = step.options
    folder = Layout(step.root).records(options.target)
    try:
        tasks = sorted(read_tasks(step.output("tasks")), key=lambda task: (task.name, task.key))
        schedule = json.loads(step.output("schedule").read_text(encoding="utf-8"))["schedule"]
        before = {key: canonical_json(winner["trace"]) for key, winner in schedule.items()}
        files = read_applicable_files(folder, (task.key for task in tasks), resolved_target(options))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TvmbuildError):
        return []
    changes = [_compare(task, files.get(task.key), before, options.measured_on) for task in tasks]
    said = [change for change in changes if change is not None]
    return said[:SHOWN] + ([f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else [])


def _compare(task: TaskId, file: TaskFile | None, before: Mapping[str, str], device_class: str | None) -> str | None:
    trace, winner = before.get(task.key), None if file is None else elect(file, device_class)
    if trace == (None if winner is None else winner.trace):
        return None
    old = "no record" if trace is None else _describe(_find(trace, file, winner), "a record that no longer applies")
    return f"{task.name} ({task.key}): {old} -> {_describe(winner, 'no record')}"


def _find(trace: str, file: TaskFile | None, winner: Record | None) -> Record | None:
    """Return the record that won before, in the new winner's device class where it is there too."""
    found = [] if file is None else [record for record in file.records if record.trace == trace]
    return next((one for one in found if winner and one.measured_on == winner.measured_on), found[0] if found else None)


def _describe(record: Record | None, absent: str) -> str:
    return absent if record is None else f"{record.seconds * 1e6:.4g} us on {record.measured_on}"
