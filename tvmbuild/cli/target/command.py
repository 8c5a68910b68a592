"""The commands `tvmbuild target lock NAME` and `tvmbuild target add NAME`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tvmbuild.cli.target.add import add_target
from tvmbuild.cli.target.lock import lock_target
from tvmbuild.planning.project import find_root

HELP = "add a target to targets.yaml by a board's, a CPU's or a GPU's name; resolve `native` and `from_device`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    lock = actions.add_parser(
        "lock", help="resolve `mcpu: native` and `from_device` of a target into records/NAME/target.lock.json"
    )
    lock.add_argument("name", metavar="NAME", help="a target of targets.yaml")
    add = actions.add_parser("add", help="append a target to targets.yaml: a known board, or a CPU or GPU by its name")
    add.add_argument("name", metavar="NAME", help="pi5, jetson-orin, nuc, … or what `tvmbuild compile --target` takes")
    add.add_argument("--as", dest="new_name", metavar="NEW", help="the target's name in targets.yaml")


def run(args: argparse.Namespace) -> int:
    """Add or lock the target in the project around the current folder; return the exit code."""
    root = find_root(Path.cwd())
    if args.action == "add":
        print(add_target(root, args.name, args.new_name))
        return 0
    path = lock_target(root, args.name)
    sys.stdout.write(f"wrote {path.relative_to(root)}\n{path.read_text(encoding='utf-8')}")
    return 0
