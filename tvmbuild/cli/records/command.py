"""The command `tvmbuild records …`: list, show, clean, check, merge and exchange records."""

from __future__ import annotations

import argparse
import importlib

from tvmbuild.cli.arguments import add_actions

HELP = "list, show, prune, verify, merge, import and export measured schedules"

ACTIONS: dict[str, tuple[str, str]] = {
    "ls": ("tvmbuild.cli.records.list", "list the records of each target and device class"),
    "show": ("tvmbuild.cli.records.show", "show a Task's records: arguments, best times, what is in quarantine"),
    "prune": ("tvmbuild.cli.records.prune", "drop the records that no cell uses, or that were found wrong"),
    "verify": ("tvmbuild.cli.records.verify", "replay and compile every record; exit with 1 if one fails"),
    "merge": ("tvmbuild.cli.records.merge", "merge the records of B into A: two folders, or two record files"),
    "merge-driver": (
        "tvmbuild.cli.records.merge_driver",
        "merge record files for git; --install makes git use it in this clone",
    ),
    "import": ("tvmbuild.cli.records.importing", "add the records of another folder, or of a MetaSchedule database"),
    "export": ("tvmbuild.cli.records.exporting", "write a target's records as a MetaSchedule database folder"),
}
"""Name → (module with ``add_arguments(parser)`` and ``run(args) -> int``, help)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_actions(parser, ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action; return the exit code."""
    return int(importlib.import_module(ACTIONS[args.action][0]).run(args))
