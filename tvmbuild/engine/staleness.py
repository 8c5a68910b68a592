"""Why a step has to run: a comparison of what it was made from with what it would be made from now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from tvmbuild.base.steps import AnyStep, Step, TuneStep, has_options
from tvmbuild.engine.failure import explain_failure
from tvmbuild.engine.file_digests import Digest, FileDigests
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.engine.outdated_schedule import find_outdated
from tvmbuild.engine.step_inputs import locate_known
from tvmbuild.engine.success import Success
from tvmbuild.engine.winner_changes import list_winner_changes

_SEARCH_ONLY = ("option.tune.", "option.device.", "option.measured_on", "environment ")
"""What changes the search or the winners, and no Task."""


def explain_changes(step: AnyStep, last: Success | None) -> Iterator[str]:
    """Yield a sentence for each reason to run the step; nothing when it is as its last success left it."""
    if last is None:
        yield "it has not finished before"
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
    """Say whether a tune step's `tasks.json` still lists the Tasks that a run would find, though it may have to run."""
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
            yield f"strict=1: {len(uncovered)} Tasks have no record"


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
        return f"cannot be read: {error.strerror}"  # a run says so as its error


def _shorten(path: Path, step: AnyStep) -> str:
    return str(path.relative_to(step.root)) if path.is_relative_to(step.root) else str(path)
