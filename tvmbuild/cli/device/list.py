"""The command `tvmbuild device ls`: the boards of trackers."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Column, Table
from rich.text import Text

from tvmbuild.base.capabilities import installed_version
from tvmbuild.base.console import make_console
from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.processes import run_module
from tvmbuild.cli.arguments import address
from tvmbuild.config.load import load_project
from tvmbuild.devices.rpc.kind import find_boards_of
from tvmbuild.devices.rpc.tracker import Boards, list_boards
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root

ANSWER_S = 20.0
_COLUMNS = ("tracker", "key", "board", "state", "architecture", "CPU", "cores", "TVM", "targets")


@dataclass(frozen=True)
class _Row:
    cells: tuple[str, ...]
    problem: str | None = None
    """A message to print below the table, or None."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument(
        "--tracker",
        action="append",
        default=[],
        type=address,
        metavar="HOST:PORT",
        help="a tracker (default: those of targets.yaml)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the table of boards. Return 1 if a tracker or a free board does not answer."""
    targets = {} if args.tracker else _list_targets()
    trackers = args.tracker or sorted({device.tracker for device in targets.values()})
    if not trackers:
        raise TvmbuildError(
            "no target has a device behind a tracker",
            "name a tracker by `--tracker HOST:PORT`, or give a target `device: {rpc: {tracker: …, key: …}}`",
        )
    table = Table(*(Column(name, no_wrap=True) for name in _COLUMNS), box=box.SIMPLE_HEAD)
    problems: list[str] = []
    for tracker in trackers:
        try:
            rows = list(
                _list_rows(tracker, {name: each.key for name, each in targets.items() if each.tracker == tracker})
            )
        except TvmbuildError as error:
            problems.append(str(error))
            continue
        for row in rows:
            table.add_row(*(Text(cell) for cell in row.cells))
        problems += [row.problem for row in rows if row.problem is not None]
    console = make_console()
    if table.row_count:
        console.print(table)
    for problem in problems:
        console.print(problem, markup=False, highlight=False, soft_wrap=True)
    return 1 if problems else 0


def _list_targets() -> dict[str, RpcDevice]:
    """Return the device of each target of this project that is behind a tracker, by the target's name."""
    return find_boards_of(load_project(find_root(Path.cwd())).targets)


def _list_rows(tracker: str, targets: Mapping[str, str]) -> Iterator[_Row]:
    """Yield the rows of the tracker's boards. ``targets`` are the names of targets, each with its key at this tracker.

    Raises TvmbuildError if the tracker does not answer, or knows no board and no target wants one.
    """
    known = list_boards(tracker)
    wanted = set(targets.values())
    if not known and not wanted:
        raise TvmbuildError(
            f"the tracker at {tracker} knows no board",
            f"start one on the board: `tvmbuild device serve --tracker {tracker} --key KEY`",
        )
    for key in sorted(known.keys() | wanted):
        names = ", ".join(name for name, used in targets.items() if used == key)
        for row in _list_boards(tracker, key, known.get(key, Boards())):
            yield _Row((tracker, key, *row.cells, names), row.problem)


def _list_boards(tracker: str, key: str, boards: Boards) -> Iterator[_Row]:
    """Yield the rows of one key's boards: board, state, architecture, CPU, cores and TVM.

    Of a busy board only the address is known.
    """
    if not boards.addresses:
        yield _Row(("—", "not connected", "", "", "", ""))
        return
    free = _ask(RpcDevice(tracker, key, timeout_s=ANSWER_S, wait_s=ANSWER_S), boards.free)
    for found in free:
        yield _show(found)
    names = {str(found.get("board")) for found in free}
    busy = [each for each in boards.addresses if each not in names]
    for each in busy[: max(0, len(boards.addresses) - len(free))]:
        yield _Row((each, "busy", "", "", "", ""))


def _show(found: dict[str, Any]) -> _Row:
    board = str(found.get("board", "?"))
    if "error" in found:
        return _Row((board, "no answer", "", "", "", ""), str(found["error"]))
    ours = installed_version("apache-tvm")
    tvm = str(found["tvm"]) if found["tvm"] == ours else f"{found['tvm']}, not {ours}"
    return _Row((board, "free", str(found["machine"]), str(found["cpu"]), str(found["cores"]), tvm))


def _ask(spec: RpcDevice, count: int) -> list[dict[str, Any]]:
    if not count:
        return []
    try:
        limit = ANSWER_S * (count + 1)
        done = run_module("tvmbuild.devices.rpc.info", json.dumps(asdict(spec)), str(count), timeout_s=limit)
    except subprocess.TimeoutExpired:
        return [{"error": f"a board {spec.key} gave no answer within {limit:g} s"}]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
