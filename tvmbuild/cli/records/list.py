"""The command `tvmbuild records ls`: the contents of each target's folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from tvmbuild.base.console import make_console
from tvmbuild.base.layout import Layout
from tvmbuild.cli.records.common import list_targets, plain, show_time
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root
from tvmbuild.records.quarantine import digest
from tvmbuild.records.selection import read_tasks
from tvmbuild.records.stored import StoredTask, read_stored


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="globs of target names (default: all)")
    parser.add_argument("--model", metavar="GLOB", help="only the Tasks of these models, as far as they are built")
    parser.add_argument("-l", "--long", action="store_true", help="one line a Task")


def run(args: argparse.Namespace) -> int:
    """Print the table of records, and the records that are not used. Return the exit code."""
    layout = Layout(find_root(Path.cwd()))
    table = _task_table() if args.long else _target_table()
    faults: list[str] = []
    for target in list_targets(layout, args.targets):
        keys = None if args.model is None else keys_of_models(layout, args.model, target)
        stored = read_stored(layout.records(target), keys)
        for row in _list_tasks(target, stored) if args.long else _list_classes(target, stored):
            table.add_row(*(Text(plain(cell)) for cell in row))  # a name may look like markup
        faults += [line for each in stored for line in _list_faults(layout, each)]
    console = make_console()
    console.print(table)
    for line in faults:
        console.print(plain(line), markup=False, highlight=False, soft_wrap=True)
    return 0


def keys_of_models(layout: Layout, pattern: str, target: str) -> set[str]:
    """Return the Task keys of the target's cells whose model matches the glob.

    Raises TvmbuildError if none of these cells was tuned.
    """
    cells = sorted(layout.cell_file("*", target, "tasks.json").parent.parent.glob(f"*@{target}/tasks.json"))
    matching = [path for path in cells if fnmatchcase(path.parent.name.rpartition("@")[0], pattern)]
    if not matching:
        raise TvmbuildError(
            f"no tuned cell matches {pattern}@{target}", f"`doit 'tune:{pattern}@{target}' tune=never` finds its Tasks"
        )
    return {task.key for path in matching for task in read_tasks(path)}


def list_rows(stored: Sequence[StoredTask]) -> list[tuple[str, ...]]:
    """Return the rows of both tables: those by device class, then those by Task."""
    return [*_list_classes("", stored), *_list_tasks("", stored)]


def _target_table() -> Table:
    heads = ("target", "device class", "Tasks", "records", "searched", "spent", "best, sum")
    return _table("records", heads, left=2)


def _task_table() -> Table:
    return _table("records", ("target", "key", "Task", "device class", "records", "searched", "spent", "best"), left=4)


def _table(title: str, heads: Sequence[str], left: int) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(
            head, justify="left" if number < left else "right", no_wrap=True, max_width=40 if head == "Task" else None
        )
    return table


def _list_classes(target: str, stored: Sequence[StoredTask]) -> Iterator[tuple[str, ...]]:
    files = [each.file for each in stored if each.file is not None]
    for device_class in sorted({name for file in files for name in file.classes}):
        best = [found[0].seconds for file in files if (found := file.best_on(device_class))]
        records = sum(len(file.best_on(device_class)) for file in files)
        searched = sum(file.searched_on(device_class) for file in files)
        spent = [seconds for file in files if (seconds := file.spent_on(device_class)) is not None]
        yield (
            target,
            device_class,
            f"{len(best)} of {len(stored)}",
            str(records),
            str(searched),
            show_time(sum(spent)) if spent else "?",
            show_time(sum(best)),
        )


def _list_tasks(target: str, stored: Sequence[StoredTask]) -> Iterator[tuple[str, ...]]:
    for file in (each.file for each in stored if each.file is not None):
        for device_class in file.classes or ("",):
            best, spent = file.best_on(device_class), file.spent_on(device_class)
            yield (
                target,
                file.key,
                file.name,
                device_class,
                str(len(best)),
                str(file.searched_on(device_class)),
                "?" if spent is None else show_time(spent),
                show_time(best[0].seconds) if best else "-",
            )


def _list_faults(layout: Layout, stored: StoredTask) -> Iterator[str]:
    path = stored.path.relative_to(layout.root)
    yield from (f"not used: {path}: {reason}" for reason in stored.faults)
    held = {digest(record.trace) for record in stored.file.records} if stored.file else set()
    yield from (f"not used: a record in {path}: {fault.reason}" for fault in stored.bad if fault.sha256 in held)
