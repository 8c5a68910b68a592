"""The command `tvmbuild records verify`: replay every record; failures go into this clone's quarantine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from tvmbuild.base.layout import Layout
from tvmbuild.base.wording import count
from tvmbuild.cli.records.common import hold_records, list_targets, plain
from tvmbuild.devices.lock import device_lock
from tvmbuild.planning.project import find_root
from tvmbuild.records.quarantine import forget_faults, keep_damaged
from tvmbuild.records.stored import read_stored
from tvmbuild.records.task_file import TaskFile
from tvmbuild.replay.verification import Subject, verify_records

FOUND = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="globs of target names (default: all)")


def run(args: argparse.Namespace) -> int:
    """Replay the records, including those found good before. Return FOUND if one is faulty, otherwise 0."""
    layout = Layout(find_root(Path.cwd()))
    hold_records(layout.root)
    found = 0
    for target in list_targets(layout, args.targets):
        folder = layout.records(target)
        stored = read_stored(folder)
        files = [each.file for each in stored if each.file is not None]
        records = sum(len(file.records) for file in files)
        print(f"{target}: checking {count(records, 'record')} of {count(len(stored), 'Task')}", file=sys.stderr)
        with device_lock("local", exclusive=False):
            lines = [*_find_damaged(layout, folder, [each.path.stem for each in stored]), *_verify(folder, files)]
        print(
            "\n".join([*map(plain, lines), f"{target}: {len(lines)} in quarantine" if lines else f"{target}: all good"])
        )
        found += len(lines)
    return FOUND if found else 0


def _find_damaged(layout: Layout, folder: Path, keys: Sequence[str]) -> Iterator[str]:
    for key, reason in keep_damaged(folder, keys, "null").items():
        yield f"{(folder / key).relative_to(layout.root)}.json: {reason}"


def _verify(folder: Path, files: Sequence[TaskFile]) -> Iterator[str]:
    for _, group in groupby(sorted(files, key=lambda file: file.target), key=lambda file: file.target):
        same = list(group)
        for file in same:  # a record that still fails gets its fault again
            forget_faults(folder, file.key, file.target)
        for key, faults in sorted(verify_records(folder, [Subject(f, f.records) for f in same], again=True).items()):
            names = {file.key: file.name for file in same}
            yield from (f"records/{folder.name}/{key}.json ({names[key]}): {fault.reason}" for fault in faults)
