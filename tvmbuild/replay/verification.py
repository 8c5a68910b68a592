"""Verification of records in a process that may crash, with a memory of good records.

Only the child process imports tvm.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import layout_of_records
from tvmbuild.base.processes import neutral_folder
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.quarantine import Fault, add_faults, digest, installed_tvm, keep_aside
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.replay import child

FORMAT = 1
TIMEOUT_S = 60
"""The time limit of one check, in seconds. A check takes about 0.1 s."""
_CHILD = child.__name__


@dataclass(frozen=True)
class Subject:
    """A Task's record file and the records to check: its own, or foreign records that must replay on its workload."""

    file: TaskFile
    records: tuple[Record, ...]
    workload: str | None = None
    """The workload that the file must hold, except for names. If it is None, the file's key must fit its workload."""


@dataclass(frozen=True)
class _Check:
    key: str
    sha256: str
    """The digest of the checked text: a trace, or the file's workload."""
    question: FrozenMap[str, str]
    """The check as a JSON object for the child process."""
    of_file: bool = False


def verify_records(folder: Path, subjects: Iterable[Subject], *, again: bool = False) -> dict[str, tuple[Fault, ...]]:
    """Check all records that are not known to be good. Return Task key → faults, for the Tasks with faults.

    With ``again``, known records are checked too. Faulty records are quarantined. Good ones are remembered for this TVM
    version and target. ``folder`` is `records/<target>`, and all files must be for one target. Raises TvmbuildError if
    this machine cannot check at all.
    """
    listed = list(subjects)
    if not listed:
        return {}
    target = listed[0].file.target
    good = {subject.file.key: set() if again else _read_good(folder, subject.file.key, target) for subject in listed}
    checks = [check for subject in listed for check in _list_checks(subject) if check.sha256 not in good[check.key]]
    reasons = ask(target, [check.question for check in checks])
    found: dict[str, list[Fault]] = {}
    for check, reason in zip(checks, reasons, strict=True):
        if reason is None:
            good[check.key].add(check.sha256)
        elif check.of_file:
            keep_aside(folder, check.key, reason, target)
            found.setdefault(check.key, []).append(Fault("file", check.sha256, reason, installed_tvm(), target))
        else:
            found.setdefault(check.key, []).append(Fault("trace", check.sha256, reason, installed_tvm(), target))
    for key in sorted({check.key for check in checks}):
        _write_good(folder, key, target, good[key])
        add_faults(folder, key, (fault for fault in found.get(key, ()) if fault.of == "trace"))
    return {key: tuple(faults) for key, faults in found.items()}


def keep_good(folder: Path, file: TaskFile, records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the ``records`` that earlier checks found good for the Task and target of ``file``. No check is run."""
    good = _read_good(folder, file.key, file.target)
    return tuple(record for record in records if digest(record.trace) in good)


def _list_checks(subject: Subject) -> list[_Check]:
    file, checks = subject.file, []
    if subject.workload is None:
        question = _question(workload=file.workload, key=file.key)
        checks.append(_Check(file.key, digest(file.workload), question, of_file=True))
    elif subject.workload != file.workload:
        question = _question(workload=file.workload, like=subject.workload)
        checks.append(_Check(file.key, digest(file.workload), question, of_file=True))
    # The check uses the file's own workload: an equal one may have other block names.
    return checks + [
        _Check(file.key, digest(record.trace), _question(workload=file.workload, trace=record.trace))
        for record in subject.records
    ]


def _question(**fields: str) -> FrozenMap[str, str]:
    return FrozenMap(fields)


def ask(target: str, checks: Sequence[Mapping[str, str]]) -> list[str | None]:
    """Run the checks in a child process. Return for each check the reason why it fails, or None.

    A check has a ``workload``, and a ``key``, ``like`` or ``trace`` (see `find_fault` of `replay.record_check`).
    Without checks no process starts. Raises TvmbuildError if this machine cannot check at all.
    """
    if not checks:
        return []
    text = json.dumps({"target": json.loads(target), "timeout_s": TIMEOUT_S, "checks": list(map(dict, checks))})
    with neutral_folder() as empty:
        done = subprocess.run(
            [sys.executable, "-m", _CHILD], cwd=empty, input=text, capture_output=True, text=True, check=False
        )
    answers: list[str | None] = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode == child.REFUSED:
        raise TvmbuildError(f"the records cannot be checked: {answers[-1]}", "`tvmbuild doctor` checks this machine")
    if done.returncode or len(answers) != len(checks):
        raise RuntimeError(f"{_CHILD} ended with status {done.returncode}:\n{done.stderr[-4000:]}")
    return answers


def _good_path(folder: Path, key: str) -> Path:
    return layout_of_records(folder).verified(folder.name) / f"{key}.json"


def _read_good(folder: Path, key: str, target: str) -> set[str]:
    try:
        data = json.loads(_good_path(folder, key).read_text(encoding="utf-8"))
        if [data["format"], data["tvm"], data["target"]] == [FORMAT, installed_tvm(), json.loads(target)]:
            return {str(sha256) for sha256 in data["sha256"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # an unreadable memory counts as empty
    return set()


def _write_good(folder: Path, key: str, target: str, good: set[str]) -> None:
    value = {"format": FORMAT, "tvm": installed_tvm(), "target": json.loads(target), "sha256": sorted(good)}
    write_json(_good_path(folder, key), value)
