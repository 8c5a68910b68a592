"""`tvmbuild device …`: boards behind an RPC tracker: serve, list, and the tracker itself."""

from __future__ import annotations

import argparse
import importlib

HELP = "serve a board over RPC, list boards, start a tracker"

ACTIONS: dict[str, tuple[str, str]] = {
    "serve": ("tvmbuild.commands.device_serve", "run on a board: offer it to a tracker until Ctrl-C"),
    "ls": ("tvmbuild.commands.device_list", "list the boards of trackers: free or busy, architecture, TVM"),
    "tracker": ("tvmbuild.commands.device_tracker", "start a tracker, which boards and builds meet at"),
    "emulator": ("tvmbuild.commands.device_emulator", "make or remove the emulated board of `device: {qemu: …}`"),
}
"""Name → module with ``add_arguments(parser)`` and ``run(args) -> int``, and its help."""

TRACKER_PORT = 9190
LOOPBACK = "127.0.0.1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (module, text) in ACTIONS.items():
        importlib.import_module(module).add_arguments(actions.add_parser(name, help=text, description=text))


def run(args: argparse.Namespace) -> int:
    """Do it; return the exit code."""
    return int(importlib.import_module(ACTIONS[args.action][0]).run(args))
