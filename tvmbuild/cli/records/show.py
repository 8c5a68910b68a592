"""The command `tvmbuild records show KEY`: one Task's record file in words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.layout import Layout
from tvmbuild.base.wording import count
from tvmbuild.cli.records.common import list_targets, plain, show_time
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root
from tvmbuild.records.quarantine import digest
from tvmbuild.records.stored import StoredTask, read_stored
from tvmbuild.records.task_file import TaskFile
from tvmbuild.records.workload_text import describe_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("key", metavar="KEY", help="a Task's key or how it begins; `tvmbuild records ls -l` lists them")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="globs of target names (default: all)")


def run(args: argparse.Namespace) -> int:
    """Print the record file of the Task in each target's folder. Return the exit code."""
    layout = Layout(find_root(Path.cwd()))
    targets = list_targets(layout, args.targets)
    known = {target: [path.stem for path in layout.records(target).glob("????????????????.json")] for target in targets}
    keys = sorted({key for found in known.values() for key in found if key.startswith(args.key)})
    if len(keys) != 1:
        raise _not_one(args.key, keys, [key for found in known.values() for key in found])
    for target in targets:
        for stored in read_stored(layout.records(target), keys):
            print("\n".join(plain(line) for line in describe(target, stored)))
    return 0


def _not_one(asked: str, keys: list[str], known: list[str]) -> TvmbuildError:
    if keys:
        some = ", ".join(keys[:4]) + (" …" if len(keys) > 4 else "")
        return TvmbuildError(f"{len(keys)} Tasks' keys begin with {asked!r}: {some}", "give more digits")
    near = suggest(find_nearest(asked, known))
    return TvmbuildError(f"no Task's key begins with {asked!r}", f"{near}`tvmbuild records ls -l` lists them")


def describe(target: str, stored: StoredTask) -> Iterator[str]:
    """Yield the lines that describe one record file in full."""
    yield f"{target}: {stored.path.stem}"
    if stored.file is not None:
        yield from _describe_file(stored.file)
        bad = {fault.sha256: fault.reason for fault in stored.bad}
        for name in stored.file.classes:
            yield from _describe_class(stored.file, name, bad)
    yield from (f"  not used: {reason}" for reason in stored.faults)


def _describe_file(file: TaskFile) -> Iterator[str]:
    yield f"  Task       {file.name}"
    yield f"  arguments  {', '.join(describe_arguments(file.workload)) or 'unknown'}"
    target = json.loads(file.target)
    attributes = {**target["attributes"], **{f"host.{name}": value for name, value in target["host"].items()}}
    shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(attributes.items()))
    yield f"  target     {target['kind']} {shown}"
    yield f"  TVM        {file.tvm}"


def _describe_class(file: TaskFile, name: str, bad: dict[str, str]) -> Iterator[str]:
    spent = file.spent_on(name)
    ended = ", its search found nothing new" if name in file.exhausted else ""
    searched = f"{count(file.searched_on(name), 'candidate')} in {'?' if spent is None else show_time(spent)}{ended}"
    yield f"  {name}: {searched}"
    for record in file.best_on(name):
        sha256 = digest(record.trace)
        fault = f"  not used: {bad[sha256]}" if sha256 in bad else ""
        threads = count(record.threads, "thread")
        yield f"    {show_time(record.seconds):>8}  {threads}, TVM {record.tvm}, trace {sha256[:12]}{fault}"
