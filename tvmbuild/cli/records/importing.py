"""The command `tvmbuild records import DIR`: another folder of records, or a database that MetaSchedule wrote."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tvmbuild.base.files import canonical_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.wording import count
from tvmbuild.cli.records.common import find_target, hold_records
from tvmbuild.cli.records.conversion import convert
from tvmbuild.cli.records.merge import SKIP_OTHERS, describe_changes
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root
from tvmbuild.records.folders import MergePlan, apply_changes, find_records, list_record_files, plan_merge
from tvmbuild.records.store import read_task_file, record_path, write_task_file
from tvmbuild.replay.verification import ask

_WORKLOADS = "database_workload.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="record files, or a database's two files")
    parser.add_argument("--target", metavar="NAME", help="the target of targets.yaml that a database is for")
    parser.add_argument("--skip-others", action="store_true", help=SKIP_OTHERS)
    parser.add_argument("--measured-on", metavar="CLASS", help="device class of a database's times (default: this CPU)")


def run(args: argparse.Namespace) -> int:
    """Import the records and return the exit code. If one cannot be imported, nothing is written."""
    root = find_root(Path.cwd())
    folder: Path = args.folder.resolve()
    if not folder.is_dir():
        raise TvmbuildError(f"there is no folder {args.folder}", "name a folder of records, or of a database")
    hold_records(root)
    if (folder / _WORKLOADS).exists():
        return _import_database(Layout(root), folder, args)
    return _import_records(Layout(root), folder, args)


def _import_records(layout: Layout, folder: Path, args: argparse.Namespace) -> int:
    """Merge record files into the project's `records`, or into the folder of the target that ``--target`` names."""
    name: str | None = args.target
    target = None if name is None else canonical_json(find_target(layout.root, name).to_json())
    files = list_record_files(find_records(folder))
    if name is None and files and files[0].parent == find_records(folder):
        raise TvmbuildError(f"{folder} holds the records of one target", "name it: --target NAME")
    into = layout.records(name or "")
    into.mkdir(parents=True, exist_ok=True)
    plan = plan_merge(into, folder, target=target, skip_others=args.skip_others)
    apply_changes(plan.changes)
    print(describe_changes(plan, done=True))
    return 0


def _import_database(layout: Layout, folder: Path, args: argparse.Namespace) -> int:
    if args.target is None:
        raise TvmbuildError(f"{folder} is a database", "name its target: --target NAME")
    target = find_target(layout.root, args.target)
    with TemporaryDirectory(prefix="tvmbuild-import-") as temporary:
        counts = convert(
            {
                "action": "import",
                "folder": str(folder),
                "into": temporary,
                "target": target.to_json(),
                "measured_on": args.measured_on,
                "threads": (target.host or target.attributes).get("num-cores", 1),
            }
        )
        into = layout.records(args.target)
        foreign = _fit_all(Path(temporary), into)
        into.mkdir(parents=True, exist_ok=True)
        imported = list_record_files(Path(temporary))
        plan = plan_merge(into, Path(temporary), skip_others=args.skip_others) if imported else MergePlan()
        apply_changes(plan.changes)
    print(
        f"{count(counts['records'], 'record')} read, {count(counts['failed'], 'failed candidate')} left out, "
        f"{counts['unreadable'] + foreign} that do not replay left out"
    )
    print(describe_changes(plan, done=True))
    return 0


def _fit_all(imported: Path, into: Path) -> int:
    """Drop imported records that do not replay on the workload that the store has for their Task. Return their number.

    A trace finds blocks by name, and equal workloads may have different names. Records of other Tasks all stay.
    """
    pairs = [
        (path, file, known)
        for path in list_record_files(imported)
        if (file := read_task_file(path)) is not None and (known := read_task_file(record_path(into, path.stem)))
    ]
    checks = [
        {"workload": known.workload, "trace": record.trace} for _, file, known in pairs for record in file.records
    ]
    reasons = iter(ask(pairs[0][1].target, checks) if pairs else ())
    lost = 0
    for path, file, known in pairs:
        fitting = tuple(record for record in file.records if next(reasons) is None)
        lost += len(file.records) - len(fitting)
        fitted = replace(file, name=known.name, workload=known.workload, tvm=known.tvm, records=fitting)
        write_task_file(path, fitted)
    return lost
