"""The command `tvmbuild device emulator make aarch64`: the emulated board that `device: {qemu: aarch64}` names."""

from __future__ import annotations

import argparse
import time

from tvmbuild.base.progress import progress_shown_by
from tvmbuild.devices.qemu.board import ARCHITECTURES, find_board
from tvmbuild.devices.qemu.make import make_board, remove_board


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    text = "make it, unless it is there: downloads Debian's Python, qemu and TVM's wheels, about 210 MB; or remove it"
    parser.add_argument("what", choices=("make", "rm"), help=text)
    parser.add_argument("architecture", choices=list(ARCHITECTURES), help="of the board")


def run(args: argparse.Namespace) -> int:
    """Make or remove the emulated board, and return the exit code."""
    name = args.architecture
    with progress_shown_by(lambda text: print(f"emulator {name}: {text}", flush=True)):
        if args.what == "rm":
            print(f"removed the emulated board {name}" if remove_board(name) else f"there is no emulated board {name}")
            return 0
        start = time.monotonic()
        old, board = find_board(name), make_board(name)
    print(f"there already: {board.folder}" if old else f"made in {time.monotonic() - start:.0f} s: {board.folder}")
    print(f"Python {board.python_version}, {board.tvm}; write `device: {{qemu: {name}}}` in targets.yaml")
    return 0
