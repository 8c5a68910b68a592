"""The command `tvmbuild report`: write the report from the files on disk, open it, or serve it while doit runs."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tvmbuild.base.console import make_console
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, Settings
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root, load_plan
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.peaks import add_peak, name_chip
from tvmbuild.report.terminal import print_matrix
from tvmbuild.report.write import write_report

HELP = "write build/report.html and report.md from the files on disk; --open shows it, --serve while doit runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--open", action="store_true", help="open it in this machine's browser")
    parser.add_argument("--serve", action="store_true", help="serve it on this machine alone, always up to date")
    parser.add_argument("-v", dest="long", action="store_true", help="print a row a cell, with all columns")
    parser.add_argument("--port", type=int, default=0, help="of --serve (default: any that is free)")
    parser.add_argument(
        "--peaks",
        action="store_true",
        help="first measure what this machine and its GPU can do at the most: rooflines' roof",
    )


def run(args: argparse.Namespace) -> int:
    """Write the report and show it as the options say. Return the exit code."""
    root = find_root(Path.cwd())
    plan = load_plan(root, Settings())
    if args.peaks:
        _measure_peaks(root, Layout(root), plan.steps)
    if args.serve:
        from tvmbuild.cli.report.serve import serve  # noqa: PLC0415 - only --serve pays for it

        return serve(plan, args.port, _open if args.open else None)
    cells = write_report(root, plan.steps)
    path = Layout(root).report_html
    if args.open:
        _open(path.as_uri())
    else:
        print_matrix(make_console(), cells, long=args.long)
    print(f"wrote {path.relative_to(root)} and {Layout(root).report_markdown.relative_to(root)}")
    return 0


def _open(url: str) -> None:
    """Open the address, or print that no browser can."""
    if not webbrowser.open(url):
        print(f"no browser could be started here; open {url}")


def _measure_peaks(root: Path, layout: Layout, steps: Sequence[AnyStep]) -> None:
    """Measure and store the peak rates of this machine, for its GPU and for each thread count that timed a cell."""
    from tvmbuild.devices.local.device import LOCAL  # noqa: PLC0415 - imports NumPy
    from tvmbuild.devices.local.gpu_peak import measure_gpu_peak  # noqa: PLC0415 - as above
    from tvmbuild.devices.local.peak import measure_peak  # noqa: PLC0415 - as above

    machine = LOCAL.watch([]).read().name
    timed = [cell for cell in collect_cells(root, steps) if cell.result and cell.result.machine.name == machine]
    if not timed:
        raise TvmbuildError(f"no cell was timed on this machine ({machine})", "`tvmbuild benchmark` times them.")
    built = [(cell.built_for, cell.result.threads) for cell in timed if cell.built_for and cell.result]
    gpus = {name_chip(machine, target): target for target, _ in built if target.on_gpu}
    asked = [
        *((machine, partial(measure_peak, each)) for each in sorted({n for target, n in built if not target.on_gpu})),
        *((chip, partial(measure_gpu_peak, gpus[chip])) for chip in sorted(gpus)),
    ]
    for chip, measure in asked:
        with LOCAL.hold(exclusive=True):
            peak = measure()
        add_peak(layout.peaks, chip, peak)
        threads = f", {peak.threads} threads" if peak.threads else ""
        print(f"{chip}{threads}: {peak.gflops:.0f} GFLOP/s, {peak.gb_s:.1f} GB/s")
