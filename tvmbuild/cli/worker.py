"""The command `tvmbuild worker`: offer this machine to the scheduler of a Dask cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import sys

from tvmbuild.base.capabilities import installed_version
from tvmbuild.cli.arguments import address, positive
from tvmbuild.cli.build import check_installed
from tvmbuild.cli.device.serve import check_versions, find_required
from tvmbuild.cluster.needs import STEPS, list_resources
from tvmbuild.devices.rpc.supervisor import is_loopback
from tvmbuild.devices.rpc.tracker import list_boards
from tvmbuild.engine.leftovers import remove_old_leftovers
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.detection import detect_capabilities

HELP = "offer this machine to a Dask cluster, for `tvmbuild build --scheduler`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("scheduler", metavar="ADDRESS", help="Dask's scheduler, such as tcp://127.0.0.1:8786")
    parser.add_argument("--steps", type=positive, default=1, metavar="N", help="steps at once (default: 1)")
    parser.add_argument("--host", help="address to answer on (default: 127.0.0.1, nobody else's)")
    parser.add_argument(
        "--tracker", type=address, action="append", default=[], help="offer the boards of this RPC tracker; repeatable"
    )
    parser.add_argument(
        "--has", action="append", default=[], metavar="NAME", help="offer this too, such as linker:COMMAND; repeatable"
    )


def run(args: argparse.Namespace) -> int:
    """Run the steps that the scheduler sends, until Ctrl-C, SIGTERM or the scheduler's end. Return the exit code."""
    check_installed()
    check_versions(find_required(), installed_version("apache-tvm"))
    host = choose_host(args.scheduler, args.host)
    boards = {f"device:{key}" for tracker in args.tracker for key in list_boards(tracker)}
    resources = list_resources(detect_capabilities(), args.steps, sorted({*boards, *args.has}))
    remove_old_leftovers()
    print(f"offers {', '.join(f'{name}={amount}' for name, amount in sorted(resources.items()))}", file=sys.stderr)
    if not is_loopback(host):
        print(
            f"answering on {host}: without TLS, whoever reaches it can run any program here, as this user",
            file=sys.stderr,
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # systemd's stop acts like Ctrl-C
    try:
        asyncio.run(_serve(args.scheduler, host, resources))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0


def choose_host(scheduler: str, host: str | None) -> str:
    """Return the address on which the worker answers: ``host``, or 127.0.0.1 if it is None.

    Raises TvmbuildError if the scheduler does not answer, or if it runs on another machine and ``host`` is None.
    """
    from tvmbuild.cluster.address import check_scheduler  # noqa: PLC0415 - Dask is an extra

    there = check_scheduler(scheduler, "worker")
    if host is None and not is_loopback(there):
        raise TvmbuildError(
            f"a worker of {scheduler} must be reachable from there, but answers only on 127.0.0.1 by default",
            "--host ADDRESS, of this machine in that network; docs/how-to/distributed.md of the repository: TLS first.",
        )
    return host or "127.0.0.1"


async def _serve(scheduler: str, host: str, resources: dict[str, int]) -> None:
    import dask  # noqa: PLC0415 - Dask is an extra
    from distributed import Nanny  # noqa: PLC0415 - as above

    # Dask would set variables that make steps compute with another number of threads than a build without Dask.
    with dask.config.set({"distributed.nanny.pre-spawn-environ": {}, "distributed.nanny.environ": {}}):
        async with Nanny(
            scheduler,
            nthreads=resources[STEPS],  # no more: Dask moves waiting steps to idle workers by counting threads
            resources=resources,
            host=host,
            name=f"{platform.node()}-{os.getpid()}",
            dashboard=False,
        ) as nanny:
            await nanny.finished()
