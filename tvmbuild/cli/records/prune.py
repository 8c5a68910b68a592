"""The command `tvmbuild records prune`: drop records that no cell uses, or that this clone found faulty."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Settings, TuneStep, has_options
from tvmbuild.base.wording import count
from tvmbuild.cli.records.common import hold_records, list_targets
from tvmbuild.doit_adapter.state import open_state
from tvmbuild.engine.status import Status, list_statuses
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root, load_plan
from tvmbuild.records.quarantine import digest
from tvmbuild.records.selection import read_tasks, resolved_target
from tvmbuild.records.store import write_task_file
from tvmbuild.records.stored import StoredTask, read_stored
from tvmbuild.records.task_file import TaskFile, code_of


@dataclass(frozen=True)
class _Removal:
    """A record file to remove or, if ``after`` is not None, to replace by ``after``, which has fewer records."""

    path: Path
    why: str
    after: TaskFile | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="globs of target names (default: all)")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would go, and change nothing")
    parser.add_argument("--quarantined", action="store_true", help="drop what is damaged or does not replay, only that")
    parser.add_argument("--force", action="store_true", help="also when a cell's Tasks are unknown: its records go")


def run(args: argparse.Namespace) -> int:
    """Drop the records, or print them with ``--dry-run``. Return the exit code."""
    layout = Layout(find_root(Path.cwd()))
    if not args.dry_run:
        hold_records(layout.root)
    targets = list_targets(layout, args.targets)
    find = _list_quarantined(layout, targets) if args.quarantined else _list_unused(layout, targets, force=args.force)
    removals = list(find)
    for removal in removals:
        print(f"{'would remove' if args.dry_run else 'removed'} {removal.path.relative_to(layout.root)}: {removal.why}")
        if args.dry_run:
            continue
        if removal.after is None:
            removal.path.unlink(missing_ok=True)
        else:
            write_task_file(removal.path, removal.after)
    print(count(len(removals), "file") if removals else "nothing to remove")
    return 0


def _list_unused(layout: Layout, targets: list[str], *, force: bool) -> Iterator[_Removal]:
    used: dict[str, set[str]] = {target: set() for target in targets}
    resolved: dict[str, str] = {}
    for status in list_statuses(load_plan(layout.root, Settings()), open_state(layout.root).recall):
        step = status.step
        if has_options(step, TuneStep) and step.options.target in used:
            resolved[step.options.target] = canonical_json(resolved_target(step.options).to_json())
            used[step.options.target] |= _read_keys(status, force=force)
    for target in targets:
        for stored in read_stored(layout.records(target)):
            if stored.path.stem not in used[target]:
                yield _Removal(
                    stored.path, f"no cell of {target} has the Task {stored.file.name if stored.file else ''}"
                )
            elif stored.file is not None and stored.file.code != code_of(resolved[target]):
                yield _Removal(stored.path, f"made for other attributes than {target} has now")


def _read_keys(status: Status, *, force: bool) -> set[str]:
    """Return the keys of the cell's Tasks.

    Raises TvmbuildError if they are not known for the present model and target. With ``force`` it returns the keys that
    were known last, or none.
    """
    cell = status.step.subject
    try:
        if status.knows_tasks or force:
            return {task.key for task in read_tasks(status.step.output("tasks"))}
    except (OSError, ValueError, KeyError, TypeError):
        if force:
            return set()
    why = f": {status.step.unavailable}" if status.step.unavailable else ""
    raise TvmbuildError(
        f"the Tasks of {cell} are not known{why}", f"run `doit 'tune:{cell}' tune=never` first, or prune with --force"
    )


def _list_quarantined(layout: Layout, targets: list[str]) -> Iterator[_Removal]:
    for target in targets:
        for stored in read_stored(layout.records(target)):
            removal = _without_faults(stored)
            if removal is not None:
                yield removal


def _without_faults(stored: StoredTask) -> _Removal | None:
    if stored.faults or stored.file is None:
        return _Removal(stored.path, "; ".join(stored.faults))
    reasons = {fault.sha256: fault.reason for fault in stored.bad}
    bad = [record for record in stored.file.records if digest(record.trace) in reasons]
    if not bad:
        return None
    kept = tuple(record for record in stored.file.records if record not in bad)
    why = f"{len(bad)} of {count(len(stored.file.records), 'record')}: {reasons[digest(bad[0].trace)]}"
    return _Removal(stored.path, why, replace(stored.file, records=kept) if kept else None)
