"""Why a step has to run: a comparison of what it was made from with what it would be made from now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from tvmbuild.doit_adapter.actions import EXTERNAL, IMPORTED, RECORD
from tvmbuild.engine.fingerprint import Digest, digest_file, fingerprint, is_same_file
from tvmbuild.engine.winners import list_winner_changes
from tvmbuild.layout import Layout
from tvmbuild.records.selection import is_current
from tvmbuild.steps import AnyStep, Step, TuneStep, has_options


class UpToDate:
    """doit's up-to-date check of one step; its repr, which `doit info` prints, says what changed, from what to what."""

    def __init__(self, step: AnyStep) -> None:
        self._step = step
        self.reasons: tuple[str, ...] = ()

    def __call__(self, task: object, values: Mapping[str, object]) -> bool:  # noqa: ARG002 - doit passes by name
        """Say whether the step needs not run, given the values that doit kept of its last success."""
        self.reasons = tuple(explain_changes(self._step, values))
        return not self.reasons

    def __repr__(self) -> str:
        """Return the reasons that the last call found."""
        return "; ".join(self.reasons) or "up to date"


def explain_changes(step: AnyStep, values: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each reason to run the step; nothing when it is up to date."""
    record = _read_record(values)
    if record is None:
        yield "it has not finished before"
        return
    yield from _explain_failure(step)
    yield from _compare_fingerprints(record["fingerprint"], fingerprint(step))
    yield from _compare_files(step, "input", record["inputs"])
    damaged = tuple(_compare_files(step, "output", record["outputs"]))
    yield from damaged
    if has_options(step, TuneStep) and not damaged:
        yield from _check_records(step)


def are_tasks_known(step: AnyStep, values: Mapping[str, object]) -> bool:
    """Say whether a tune step's `tasks.json` still lists the Tasks that a run would find, though it may have to run."""
    record = _read_record(values)
    if record is None or any(_compare_files(step, "input", record["inputs"])):
        return False
    now = fingerprint(step)
    names = record["fingerprint"].keys() | now.keys()
    changed = [name for name in names if record["fingerprint"].get(name) != now.get(name)]
    tasks = record["outputs"].get("tasks")
    return (
        all(name.startswith(_SEARCH_ONLY) and name != "option.tune.algorithms" for name in changed)
        and tasks is not None
        and is_same_file(step.output("tasks"), tasks)
    )


_SEARCH_ONLY = ("option.tune.", "option.device.", "option.measured_on", "environment ")
"""What changes the search or the winners, and no Task."""


def _read_record(values: Mapping[str, object]) -> dict[str, Any] | None:
    """Return what `run_step` kept of the last success; None: there was none."""
    record = values.get(RECORD)
    if not isinstance(record, dict) or not {"fingerprint", "inputs", "outputs"} <= record.keys():
        return None
    return record


def _named_by_source(step: AnyStep, known: Iterable[str]) -> dict[str, Path]:
    """Return the known inputs that only the source names; a new one among them needs a change of what names it."""
    inputs = step.inputs
    found = {}
    for role in known:
        for prefix, origin in ((EXTERNAL, inputs.get("source")), (IMPORTED, inputs.get("export"))):
            if role.startswith(prefix) and origin is not None:
                found[role] = origin.parent / role.removeprefix(prefix)
    return found


def _check_records(step: Step[TuneStep]) -> Iterator[str]:
    reason = is_current(step)
    if reason is not None:
        # Its damaged files follow the reason itself.
        what, *damaged = reason.replace(f"{step.root}/", "").split("; ")
        changes = list_winner_changes(step)
        yield f"{what}: {'; '.join(changes)}" if changes else what
        yield from damaged
    elif step.refuses_uncovered:
        uncovered = json.loads(step.output("info").read_text())["uncovered"]
        if uncovered:
            yield f"strict=1: {len(uncovered)} Tasks have no record"


def _explain_failure(step: AnyStep) -> Iterator[str]:
    try:
        failure = json.loads(Layout(step.root).failure(step.id).read_text())
        if failure["ran"]:
            yield f"it failed the last time: {str(failure['message']).splitlines()[0]}"
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, IndexError):
        yield "it failed the last time"  # a damaged note of a failure is still one


def _compare_fingerprints(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name, 'absent')} -> {now.get(name, 'absent')}"


def _compare_files(step: AnyStep, kind: Literal["input", "output"], before: Mapping[str, Digest]) -> Iterator[str]:
    now = {**step.inputs, **_named_by_source(step, before)} if kind == "input" else dict(step.outputs)
    for role in sorted(before.keys() | now.keys()):
        path, known = now.get(role), before.get(role)
        if path is None:
            yield f"{kind} {role} was removed"
        elif known is None:
            yield f"{kind} {role} was added: {_shorten(path, step)}"
        elif not path.exists():
            yield f"{kind} {role} is missing: {_shorten(path, step)}"
        elif not is_same_file(path, known):
            digests = f"sha256 {known[2][:12]} -> {digest_file(path)[2][:12]}"
            yield f"{kind} {role} changed: {digests} ({_shorten(path, step)})"


def _shorten(path: Path, step: AnyStep) -> str:
    return str(path.relative_to(step.root)) if path.is_relative_to(step.root) else str(path)
