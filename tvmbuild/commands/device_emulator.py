"""`tvmbuild device emulator make aarch64`: the emulated board that `device: {qemu: aarch64}` names."""

from __future__ import annotations

import argparse
import time

from tvmbuild.devices.qemu_board import ARCHITECTURES, find_board
from tvmbuild.devices.qemu_make import make_board, remove_board
from tvmbuild.progress import progress_shown_by


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="emulator_action", required=True, metavar="ACTION")
    for name, text in (
        ("make", "make it, or make it anew: downloads Debian's Python, qemu and TVM's wheels, about 190 MB"),
        ("rm", "remove it"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("architecture", choices=list(ARCHITECTURES), metavar="ARCHITECTURE", help="aarch64")


def run(args: argparse.Namespace) -> int:
    """Make or remove the board; return the exit code."""
    name = args.architecture
    with progress_shown_by(lambda text: print(f"emulator {name}: {text}", flush=True)):
        if args.emulator_action == "rm":
            print(f"removed the emulated board {name}" if remove_board(name) else f"there is no emulated board {name}")
            return 0
        old, start = find_board(name), time.monotonic()
        board = make_board(name)
    print(f"{'made anew' if old else 'made'} in {time.monotonic() - start:.0f} s: {board.folder}")
    print(f"Python {board.python_version}, {board.tvm}; write `device: {{qemu: {name}}}` in targets.yaml")
    return 0
