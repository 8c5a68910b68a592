"""The command `tvmbuild build`: the work of doit, here or on the workers of a Dask cluster."""

from __future__ import annotations

import argparse

from tvmbuild.base.capabilities import installed_version
from tvmbuild.doit_adapter.main import run_doit
from tvmbuild.errors import TvmbuildError

HELP = "build as plain `tvmbuild` does, or with --scheduler on the machines of a Dask cluster"
AT_ONCE = "128"
"""The number of steps that doit starts at once. Dask decides when and on which worker each runs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("what", nargs="*", metavar="STEP|STAGE|PATTERN|NAME=VALUE", help="default: everything")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="Dask's, such as tcp://127.0.0.1:8786")


def run(args: argparse.Namespace) -> int:
    """Build, here or on the cluster of ``--scheduler``, and return doit's exit code."""
    if args.scheduler is None:
        return run_doit(["run", *args.what], ())
    check_installed()
    from tvmbuild.cluster.client import connect  # noqa: PLC0415 - Dask is an extra

    command = ["run", "-n", AT_ONCE, "-P", "thread", *args.what]
    with connect(args.scheduler) as cluster:
        code = run_doit(command, (), cluster)
        if code == 0 and cluster.is_outdone():
            print("other records win now that all have come home:")
            code = run_doit([*command, "tune=never"], (), cluster)
    return code


def check_installed() -> None:
    """Raise TvmbuildError if Dask is not installed."""
    if installed_version("distributed") is None:
        raise TvmbuildError("Dask is not installed", "`pip install 'tvmbuild[dask]'`, on all machines alike.")
