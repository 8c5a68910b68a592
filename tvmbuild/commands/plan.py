"""`tvmbuild plan`: every step, and whether it can and would run here."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich.table import Table

from tvmbuild.console import make_console
from tvmbuild.doit_adapter.status import Status, list_statuses
from tvmbuild.doit_adapter.variables import split_words
from tvmbuild.errors import TvmbuildError
from tvmbuild.nearest import find_nearest_pattern, suggest
from tvmbuild.project import find_root, load_plan

HELP = "show every step, whether it can run on this machine and whether it would"
COLOURS = {"up to date": "green", "would run": "yellow", "unavailable": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="PATTERN",
        help="steps to show, such as 'compile:*@pi4' (default: all); tune=…, strict=…",
    )


def run(args: argparse.Namespace) -> int:
    """Print the table; return the exit code."""
    patterns, settings = split_words(args.words)
    plan = load_plan(find_root(Path.cwd()), settings)
    if not plan.steps:
        raise TvmbuildError("there is nothing to build", "models.yaml has no model that is enabled.")
    statuses = list_statuses(plan)
    for pattern in patterns:
        if not any(fnmatchcase(status.step.id, pattern) for status in statuses):
            meant = suggest(find_nearest_pattern(pattern, (step.id for step in plan.steps)))
            raise TvmbuildError(f"no step matches {pattern!r}", f"{meant}`tvmbuild plan` shows all of them.")
    make_console().print(_render([status for status in statuses if _is_shown(status, patterns)]))
    return 0


def _is_shown(status: Status, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(status.step.id, pattern) for pattern in patterns)


def _render(statuses: list[Status]) -> Table:
    table = Table("step", "state", "why", title="plan", title_justify="left")
    for status in statuses:
        colour = COLOURS[status.state]
        table.add_row(status.step.id, f"[{colour}]{status.state}[/]", "; ".join(status.reasons).replace("[", r"\["))
    return table
