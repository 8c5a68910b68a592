"""The option `tvmbuild bench --since`: a comparison of each cell's newest benchmark with an earlier one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvmbuild.base.layout import Layout
from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import describe_ratio
from tvmbuild.benchmarking.history import Entry, read_entry, read_history
from tvmbuild.benchmarking.regressions import Change, Incomparable, compare_cell, describe_schedule
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.selection import read_tasks
from tvmbuild.report.latency import format_ms

REGRESSION = 1
"""The exit code if a cell became slower."""


@dataclass(frozen=True)
class Earlier:
    """The earlier benchmarks to compare with. ``name`` completes `there is no benchmark of it …`."""

    entries: tuple[Entry, ...]
    name: str


def compare_since(root: Path, cells: Sequence[str], since: str) -> int:
    """Compare each cell with its earlier benchmark and print the result, with reasons for a regression.

    Return REGRESSION if a cell became slower, otherwise 0.
    """
    layout = Layout(root)
    entries = _read_entries(layout.history)
    if not entries:
        raise TvmbuildError(f"there is no benchmark in {layout.history}", "`tvmbuild bench` makes one")
    earlier = find_earlier(root, entries, since)
    found = False
    for cell in cells:
        compared = compare_cell(cell, earlier.entries, entries, earlier.name)
        print("\n".join(_describe(layout, compared)))
        found = found or (isinstance(compared, Change) and compared.is_regression)
    return REGRESSION if found else 0


def find_earlier(root: Path, history: Sequence[Entry], since: str) -> Earlier:
    """Return the benchmarks in the file ``since``, or the history's benchmarks up to the git revision ``since``.

    A benchmark belongs to a revision if it was measured before the commit. Raises TvmbuildError if ``since`` is
    neither.
    """
    path = Path(since)
    if path.is_file():
        return Earlier(_read_file(path, history), f"in {since}")
    seconds = _commit_time(root, since)
    return Earlier(tuple(entry for entry in history if entry.time <= seconds), f"before {since} was committed")


def _read_file(path: Path, history: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the benchmarks in a history.jsonl or a result.json.

    If the history has an entry with the result of a result.json, that entry is returned, because it has more facts.
    """
    if path.suffix == ".jsonl":
        return _read_entries(path)
    try:
        entry = read_entry(path.read_bytes(), when=int(path.stat().st_mtime))
    except OSError as error:
        raise TvmbuildError(f"{path} cannot be read: {error.strerror}") from error
    if entry is None:
        raise TvmbuildError(
            f"{path} is not a result.json of this version of tvmbuild", "name a result.json or a history.jsonl"
        )
    entry = replace(entry, result=replace(entry.result, operators=()))
    return tuple(known for known in history if known.result == entry.result)[-1:] or (entry,)


def _read_entries(path: Path) -> tuple[Entry, ...]:
    """Return the entries of a history file. Print a warning with the number of damaged lines."""
    try:
        history = read_history(path)
    except OSError as error:
        raise TvmbuildError(f"{path} cannot be read: {error.strerror}") from error
    if history.damaged:
        lines = count(history.damaged, "line")
        print(f"warning: {path}: {lines} cannot be read (damaged, or of another version)", file=sys.stderr)
    return history.entries


def _commit_time(root: Path, revision: str) -> int:
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct", "--end-of-options", revision, "--"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise TvmbuildError(f"{revision} is not a file, and git is not installed") from error
    if done.returncode != 0 or not done.stdout.strip():
        raise TvmbuildError(
            f"{revision!r} is neither a file nor a git revision of {root}",
            "name a commit, a tag, a history.jsonl or a result.json",
        )
    return int(done.stdout)


def _describe(layout: Layout, compared: Change | Incomparable) -> Iterator[str]:
    if isinstance(compared, Incomparable):
        yield f"{compared.cell}: not compared: {compared.reason}"
        return
    before, after = compared.before, compared.after
    then, now = (entry.result.latency.median.value for entry in (before, after))
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(before.time))
    ratio = compared.ratio
    basis = "" if compared.against is None else f", relative to {compared.against}"
    said = f"{describe_ratio(ratio)} ({ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]{basis})"
    yield f"{after.result.cell}: {said}: {format_ms(then)} ms on {when}, {format_ms(now)} ms now"
    for name, entry in (("then", before), ("now", after)):
        yield from (f"  {name}: {warning}" for warning in entry.result.warnings)
    if compared.is_regression:
        yield from _blame(layout, compared)


def _blame(layout: Layout, change: Change) -> Iterator[str]:
    if change.before.result.product.sha256 == change.after.result.product.sha256:
        yield "  the package is the same, byte by byte: the machine, or the versions of its tools, made the difference"
    elif change.blamed is None:
        yield "  which schedules changed is not known"
    elif not change.blamed:
        yield "  no Task's schedule changed: the model, the options or the versions of the tools did"
    else:
        names = _read_names(layout, change.after.result.cell)
        for key in change.blamed:
            yield f"  {names.get(key, 'a Task')} ({key}): {describe_schedule(change, key)}"


def _read_names(layout: Layout, cell: str) -> dict[str, str]:
    model, target = cell.split("@", 1)
    try:
        return {task.key: task.name for task in read_tasks(layout.cell_file(model, target, "tasks.json"))}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
