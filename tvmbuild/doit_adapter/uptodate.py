"""Why a step has to run: a comparison of what it was made from with what it would be made from now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tvmbuild.doit_adapter.actions import EXTERNAL, RECORD
from tvmbuild.fingerprint import Digest, digest_file, fingerprint, is_same_file
from tvmbuild.layout import Layout
from tvmbuild.records.selection import is_current
from tvmbuild.specs import Step


class UpToDate:
    """doit's up-to-date check of one step; its repr, which `doit info` prints, says what changed, from what to what."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.reasons: tuple[str, ...] = ()

    def __call__(self, task: object, values: Mapping[str, object]) -> bool:  # noqa: ARG002 - doit passes by name
        """Say whether the step needs not run, given the values that doit kept of its last success."""
        self.reasons = tuple(explain_changes(self._step, values))
        return not self.reasons

    def __repr__(self) -> str:
        """Return the reasons that the last call found."""
        return "; ".join(self.reasons) or "up to date"


def explain_changes(step: Step, values: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each reason to run the step; nothing when it is up to date."""
    record = values.get(RECORD)
    if not isinstance(record, dict) or not {"fingerprint", "inputs", "outputs"} <= record.keys():
        yield "it has not finished before"
        return
    if _failed(step):
        yield "it failed the last time"
    yield from _compare_fingerprints(record["fingerprint"], fingerprint(step))
    yield from _compare_files("input", record["inputs"], dict(step.inputs) | _external_data(step, record["inputs"]))
    damaged = tuple(_compare_files("output", record["outputs"], dict(step.outputs)))
    yield from damaged
    if step.stage == "tune" and not damaged:
        yield from _check_records(step)


def _external_data(step: Step, known: Iterable[str]) -> dict[str, Path]:
    source = dict(step.inputs).get("source")
    if source is None:
        return {}
    return {role: source.parent / role.removeprefix(EXTERNAL) for role in known if role.startswith(EXTERNAL)}


def _check_records(step: Step) -> Iterator[str]:
    reason = is_current(step)
    if reason is not None:
        yield reason
    elif step.settings.strict:
        uncovered = json.loads(step.output("info").read_text())["uncovered"]
        if uncovered:
            yield f"strict=1: {len(uncovered)} Tasks have no record"


def _failed(step: Step) -> bool:
    try:
        return bool(json.loads(Layout(step.root).failure(step.id).read_text())["ran"])
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        return True  # a damaged note of a failure is still one


def _compare_fingerprints(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name, 'absent')} -> {now.get(name, 'absent')}"


def _compare_files(kind: str, before: Mapping[str, Digest], now: Mapping[str, Path]) -> Iterator[str]:
    for role in sorted(before.keys() | now.keys()):
        path, known = now.get(role), before.get(role)
        if path is None or known is None:
            yield f"{kind} {role} was {'added' if known is None else 'removed'}"
        elif not path.exists():
            yield f"{kind} {role} is missing: {path}"
        elif not is_same_file(path, known):
            yield f"{kind} {role} changed: sha256 {known[2][:12]} -> {digest_file(path)[2][:12]} ({path})"
