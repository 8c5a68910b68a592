"""The command `tvmbuild device serve`, which runs on a board and offers it to a tracker."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from tvmbuild.base.capabilities import installed_version
from tvmbuild.base.loadable import check_loadable
from tvmbuild.cli.arguments import address, positive
from tvmbuild.devices.rpc.supervisor import Serving, check_reachable, find_cpu, is_loopback, supervise
from tvmbuild.devices.rpc.tracker import list_boards, split_address
from tvmbuild.errors import TvmbuildError

_TVM = "apache-tvm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument(
        "--tracker", required=True, type=address, metavar="HOST:PORT", help="the tracker to register at"
    )
    parser.add_argument("--key", required=True, help="what targets.yaml calls boards of this kind, such as pi4")
    parser.add_argument("--host", default="127.0.0.1", help="address to answer on (default: 127.0.0.1, nobody else's)")
    parser.add_argument("--port", type=positive, default=9090, help="the first port to try (default: 9090)")
    parser.add_argument("--address", metavar="HOST", help="what clients connect to, where the tracker sees another")
    parser.add_argument("--cpu", default="", metavar="NAME", help="device class of its records (default: LLVM's name)")


def run(args: argparse.Namespace) -> int:
    """Serve the board until Ctrl-C or SIGTERM, and return the exit code."""
    check_versions(find_required(), installed_version(_TVM))
    check_loadable(Path(tempfile.gettempdir()))
    serving = Serving(split_address(args.tracker), args.key, args.host, args.port, args.address, args.cpu)
    check_reachable(serving)
    serving = replace(serving, cpu=serving.cpu or find_cpu())
    _greet(serving, args.tracker)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # systemd's stop acts like Ctrl-C
    try:
        supervise(serving)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0


def check_versions(required: str | None, installed: str | None) -> None:
    """Raise TvmbuildError if TVM is not installed, or not in the version ``required``, if that is not None."""
    if installed is None:
        raise TvmbuildError("there is no TVM on this board", f"`pip install {_TVM}=={required or 'VERSION'}`")
    if required is not None and installed != required:
        raise TvmbuildError(
            f"this board has TVM {installed}, and this tvmbuild's packages are for {required}",
            f"`pip install {_TVM}=={required}`, or the tvmbuild that belongs to {installed}",
        )


def find_required() -> str | None:
    """Return the version of TVM that tvmbuild requires, or None if tvmbuild is not installed as a distribution."""
    try:
        wanted = requires("tvmbuild") or []
    except PackageNotFoundError:
        return None
    found = (re.fullmatch(rf"{_TVM}==([\w.]+)", line.replace(" ", "")) for line in wanted)
    return next((match.group(1) for match in found if match), None)


def _greet(serving: Serving, tracker: str) -> None:
    print(f"{serving.key}: {serving.cpu}, TVM {installed_version(_TVM)}; tracker {tracker}", file=sys.stderr)
    if not is_loopback(serving.host):
        print(
            f"answering on {serving.host}: whoever reaches the port can run any program here, as this user",
            file=sys.stderr,
        )
    try:
        list_boards(tracker)
    except TvmbuildError as error:
        print(f"{error.message}; it is asked again until it does", file=sys.stderr)
