"""The command `tvmbuild records export DIR --target NAME`: a target's records as a database for MetaSchedule."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.layout import Layout
from tvmbuild.base.wording import count
from tvmbuild.cli.records.common import find_target, hold_records, list_targets
from tvmbuild.cli.records.conversion import convert
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root
from tvmbuild.records.folders import list_record_files
from tvmbuild.records.selection import elect, read_applicable_files
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import TaskFile
from tvmbuild.replay.verification import Subject, verify_records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="made; may exist when it is empty")
    parser.add_argument("--target", metavar="NAME", required=True, help="a target of targets.yaml")
    parser.add_argument("--measured-on", metavar="CLASS", help="device class (default: each Task's best known one)")


def run(args: argparse.Namespace) -> int:
    """Export the records and return the exit code. The folder appears only when it is complete."""
    layout, folder = Layout(find_root(Path.cwd())), args.folder.resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TvmbuildError(f"{args.folder} exists and is not empty", "name a new folder")
    target = find_target(layout.root, args.target)
    list_targets(layout, [args.target])
    hold_records(layout.root)
    records = layout.records(args.target)
    keys = [path.stem for path in list_record_files(records) if path.parent == records]
    verify_records(records, [Subject(f, f.records) for f in read_applicable_files(records, keys, target).values()])
    files = read_applicable_files(records, keys, target)
    _check_class(args.measured_on, files.values())
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent) as temporary:
        for key, file in files.items():
            write_task_file(record_path(Path(temporary, "records"), key), _of_one_class(file, args.measured_on))
        written = Path(temporary, "database")
        written.mkdir()
        request = {"action": "export", "folder": f"{temporary}/records", "into": str(written)}
        counts = convert({**request, "target": target.to_json()})
        written.rename(folder)
    print(f"wrote {args.folder}: {count(counts['records'], 'record')} of {count(counts['tasks'], 'Task')}")
    return 0


def _check_class(device_class: str | None, files: Iterable[TaskFile]) -> None:
    known = sorted({record.measured_on for file in files for record in file.records})
    if device_class is not None and device_class not in known:
        near = suggest(find_nearest(device_class, known))
        hint = f"{near}There are {', '.join(known)}." if known else "there is no record of any"
        raise TvmbuildError(f"no record was measured on {device_class}", hint)


def _of_one_class(file: TaskFile, device_class: str | None) -> TaskFile:
    """Return the file with the records of one device class, because times of different classes must not be compared.

    If ``device_class`` is None, it is the class of the record that would be elected.
    """
    if device_class is not None:
        return replace(file, records=file.best_on(device_class))
    winner = elect(file, None)
    return replace(file, records=file.best_on(winner.measured_on) if winner else ())
