"""The command `tvmbuild device tracker`: TVM's RPC tracker."""

from __future__ import annotations

import argparse
import signal
import sys

from tvmbuild.cli.arguments import positive
from tvmbuild.devices.rpc.supervisor import is_loopback
from tvmbuild.errors import TvmbuildError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action's arguments."""
    parser.add_argument("--host", default="127.0.0.1", help="address to answer on (default: 127.0.0.1, nobody else's)")
    parser.add_argument("--port", type=positive, default=9190, help="the port (default: 9190)")


def run(args: argparse.Namespace) -> int:
    """Run the tracker until Ctrl-C or SIGTERM, and return the exit code. Raises TvmbuildError if it cannot start."""
    from tvmbuild.devices.rpc.tracker_server import serve_tracker  # noqa: PLC0415 - it imports TVM

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not is_loopback(args.host):
        print(f"answering on {args.host}: whoever reaches the port can have the boards", file=sys.stderr)
    try:
        serve_tracker(args.host, args.port)
    except OSError as error:
        raise TvmbuildError(
            f"no tracker can answer on {args.host}:{args.port}: {error.strerror or error}",
            f"if one runs there already, use it; else name another with `--port {args.port + 1}`",
        ) from error
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0
