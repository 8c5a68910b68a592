"""The command `tvmbuild records merge A B`: the union of two folders of records, or of two record files, in A."""

from __future__ import annotations

import argparse
from pathlib import Path

from tvmbuild.base.wording import count
from tvmbuild.cli.records.common import hold_records
from tvmbuild.records.folders import MergePlan, apply_changes, plan_merge

SKIP_OTHERS = "leave out files made for other target attributes (default: refuse all)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("into", metavar="A", type=Path, help="the folder or file that is changed")
    parser.add_argument("other", metavar="B", type=Path, help="what goes into it; stays as it is")
    parser.add_argument("--skip-others", action="store_true", help=SKIP_OTHERS)
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def run(args: argparse.Namespace) -> int:
    """Merge the records and return the exit code. If one file cannot be merged, nothing is written."""
    hold_records(args.into)
    plan = plan_merge(args.into, args.other, skip_others=args.skip_others)
    if not args.dry_run:
        apply_changes(plan.changes)
    print(describe_changes(plan, done=not args.dry_run))
    return 0


def describe_changes(plan: MergePlan, *, done: bool) -> str:
    """Return one line with the numbers of files and records that a merge changed, or would change if not ``done``."""
    changes = plan.changes
    left_out = f"; {count(len(plan.others), 'file')} for other attributes left out" if plan.others else ""
    added = sum(change.before is None for change in changes)
    won = sum(change.won for change in changes)
    word = "" if done else "would be "
    if not changes:
        return f"nothing new{left_out}"
    counts = f"{count(added, 'file')} {word}added, {len(changes) - added} {word}changed"
    return f"{counts}; {count(won, 'record')} {word}added or made faster{left_out}"
