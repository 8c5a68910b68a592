"""The command `tvmbuild device …`: serve and list boards, start their RPC tracker, make an emulated board."""

from __future__ import annotations

import argparse
import importlib

from tvmbuild.cli.arguments import add_actions

HELP = "serve a board over RPC, list boards, start a tracker"

ACTIONS: dict[str, tuple[str, str]] = {
    "serve": ("tvmbuild.cli.device.serve", "run on a board: offer it to a tracker until Ctrl-C"),
    "ls": ("tvmbuild.cli.device.list", "list the boards of trackers: free or busy, architecture, TVM"),
    "tracker": ("tvmbuild.cli.device.tracker", "start a tracker, where boards register and builds find them"),
    "emulator": ("tvmbuild.cli.device.emulator", "make or remove the emulated board of `device: {qemu: …}`"),
}
"""Name → (module with ``add_arguments(parser)`` and ``run(args) -> int``, help)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_actions(parser, ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action; return the exit code."""
    return int(importlib.import_module(ACTIONS[args.action][0]).run(args))
