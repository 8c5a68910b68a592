"""The reasons why a step must run: differences between its recorded and its present dependencies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, Step, TuneStep, has_options
from tvmbuild.base.wording import count
from tvmbuild.engine.failure import explain_failure
from tvmbuild.engine.file_digests import Digest, FileDigests
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.engine.outdated_schedule import find_outdated
from tvmbuild.engine.step_inputs import locate_known
from tvmbuild.engine.success import Success
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.selection import TaskId, elect, read_applicable_files, read_tasks, resolved_target
from tvmbuild.records.task_file import Record, TaskFile

_SEARCH_ONLY = ("option.tune.", "option.device.", "option.measured_on", "environment ")
"""The prefixes of names in a fingerprint that change the search or the winners, but no Task."""


def explain_changes(step: AnyStep, last: Success | None) -> Iterator[str]:
    """Yield a sentence for each reason to run the step, or nothing if nothing has changed since its last success.

    ``last`` is None if the step has never succeeded.
    """
    if last is None:
        yield "it has never finished"
        return
    yield from explain_failure(step)
    yield from _compare_fingerprints(last.fingerprint, fingerprint(step))
    digests = FileDigests(step)
    changed = tuple(_compare_files(step, "input", last.inputs, digests))
    damaged = tuple(_compare_files(step, "output", last.outputs, digests))
    digests.save()
    yield from (*changed, *damaged)
    if has_options(step, TuneStep) and not damaged:
        yield from _check_records(step)


def are_tasks_known(step: AnyStep, last: Success | None) -> bool:
    """Return whether a tune step's `tasks.json` lists the Tasks that a run would find, even if it must run."""
    digests = FileDigests(step)
    if last is None or any(_compare_files(step, "input", last.inputs, digests)):
        return False
    now = fingerprint(step)
    names = last.fingerprint.keys() | now.keys()
    changed = [name for name in names if last.fingerprint.get(name) != now.get(name)]
    tasks = last.outputs.get("tasks")
    return (
        all(name.startswith(_SEARCH_ONLY) and name != "option.tune.algorithms" for name in changed)
        and tasks is not None
        and digests.is_same(step.output("tasks"), tasks)
    )


def _check_records(step: Step[TuneStep]) -> Iterator[str]:
    stale = find_outdated(step)
    if stale is not None:
        changes = list_winner_changes(step)
        yield f"{stale.reason}: {'; '.join(changes)}" if changes else stale.reason
        yield from stale.absent
    elif step.refuses_uncovered:
        uncovered = json.loads(step.output("info").read_text())["uncovered"]
        if uncovered:
            yield f"strict=1: {count(len(uncovered), 'Task')} without a record"


def _compare_fingerprints(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name, 'absent')} -> {now.get(name, 'absent')}"


def _compare_files(
    step: AnyStep, kind: Literal["input", "output"], before: Mapping[str, Digest], digests: FileDigests
) -> Iterator[str]:
    now = locate_known(step, before) if kind == "input" else dict(step.outputs)
    for role in sorted(before.keys() | now.keys()):
        path, known = now.get(role), before.get(role)
        if path is None:
            yield f"{kind} {role} was removed"
        elif known is None:
            yield f"{kind} {role} was added: {_shorten(path, step)}"
        elif not path.exists():
            yield f"{kind} {role} is missing: {_shorten(path, step)}"
        else:
            change = _explain_change(path, known, digests)
            if change is not None:
                yield f"{kind} {role} {change} ({_shorten(path, step)})"


def _explain_change(path: Path, known: Digest, digests: FileDigests) -> str | None:
    try:
        if digests.is_same(path, known):
            return None
        return f"changed: sha256 {known[2][:12]} -> {digests.digest(path)[2][:12]}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"  # a run reports it as its error


def _shorten(path: Path, step: AnyStep) -> str:
    return str(path.relative_to(step.root)) if path.is_relative_to(step.root) else str(path)


# The Tasks of a cell whose winner is no longer the winner in its Schedule, with both times.

SHOWN = 5
"""The largest number of Tasks that are named. The others are only counted."""


def list_winner_changes(step: Step[TuneStep]) -> list[str]:
    """Return `name (key): old time -> new time` for each Task of a tune step whose winner has changed.

    Return an empty list if files are unreadable.
    """
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
    """Return the record that won before, or None if it is gone. The new winner's device class is preferred."""
    found = [] if file is None else [record for record in file.records if record.trace == trace]
    return next((one for one in found if winner and one.measured_on == winner.measured_on), found[0] if found else None)


def _describe(record: Record | None, absent: str) -> str:
    return absent if record is None else f"{record.seconds * 1e6:.4g} us on {record.measured_on}"
