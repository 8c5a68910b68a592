"""`tvmbuild records …`: look at the records, clean, check, merge and exchange them."""

from __future__ import annotations

import argparse
from types import ModuleType

from tvmbuild.commands import (
    records_driver,
    records_export,
    records_import,
    records_list,
    records_merge,
    records_prune,
    records_show,
    records_verify,
)

HELP = "list, show, prune, verify, merge, import and export measured schedules"

ACTIONS: dict[str, ModuleType] = {
    "ls": records_list,
    "show": records_show,
    "prune": records_prune,
    "verify": records_verify,
    "merge": records_merge,
    "merge-driver": records_driver,
    "import": records_import,
    "export": records_export,
}
"""Each has ``HELP``, ``add_arguments(parser)`` and ``run(args) -> int``, as a command has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        action.add_arguments(actions.add_parser(name, help=action.HELP, description=action.HELP))


def run(args: argparse.Namespace) -> int:
    """Do it; return the exit code."""
    return int(ACTIONS[args.action].run(args))
