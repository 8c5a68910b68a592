"""`tvmbuild plan`: every step, and whether it can and would run here."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase
from pathlib import Path

from rich.table import Table

from tvmbuild.console import make_console
from tvmbuild.doit_adapter.status import Status, list_statuses
from tvmbuild.doit_adapter.variables import read_settings
from tvmbuild.errors import TvmbuildError
from tvmbuild.project import find_root, load_plan

HELP = "show every step, whether it can run on this machine and whether it would"
COLOURS = {"up to date": "green", "would run": "yellow", "unavailable": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("pattern", nargs="?", default="*", help="steps to show, such as 'compile:*@pi4' (default: all)")


def run(args: argparse.Namespace) -> int:
    """Print the table; return the exit code."""
    plan = load_plan(find_root(Path.cwd()), read_settings())
    statuses = [status for status in list_statuses(plan) if fnmatchcase(status.step.id, args.pattern)]
    if not statuses:
        raise TvmbuildError(f"no step matches {args.pattern!r}", "`tvmbuild plan` shows all of them.")
    make_console().print(_render(statuses))
    return 0


def _render(statuses: list[Status]) -> Table:
    table = Table("step", "state", "why", title="plan", title_justify="left")
    for status in statuses:
        colour = COLOURS[status.state]
        table.add_row(status.step.id, f"[{colour}]{status.state}[/]", "; ".join(status.reasons).replace("[", r"\["))
    return table
