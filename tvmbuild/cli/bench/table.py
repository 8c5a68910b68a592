"""The output of `tvmbuild bench` for one result."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tvmbuild.base.console import make_console
from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import Estimate, describe_ratio
from tvmbuild.benchmarking.frames.results import FrameResult
from tvmbuild.benchmarking.results import Result
from tvmbuild.errors import TvmbuildError
from tvmbuild.report.frames import COLUMNS, list_frame_remarks, list_ways
from tvmbuild.report.latency import describe_machine, format_interval, format_ms

HEADS = ("", "median ms", "95 % interval", "ratio", "95 % interval", "the package is")


def print_result(result: Result) -> None:
    """Print a table of the package and its baselines, and remarks about the measurement."""
    console, product = make_console(), result.product
    title = (
        f"{result.cell}: {count(result.threads, 'thread')}, {product.covered} of {product.tasks} Tasks have a record"
    )
    console.print(f"[bold]{escape(title)}[/bold]", highlight=False, soft_wrap=True)
    console.print(make_table(result))
    if result.accuracy:
        told = f"on real inputs: {result.accuracy.describe()}"
        console.print(told, markup=False, highlight=False, soft_wrap=True)
    for each in result.absent:
        console.print(f"{each.name} not measured: {each.reason}", markup=False, highlight=False, soft_wrap=True)
    if result.frames is not None:
        _print_frames(console, result.cell, result.frames)
    for warning in result.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False, soft_wrap=True)
    console.print(describe_machine(result.machine), style="dim", markup=False, highlight=False, soft_wrap=True)


def _print_frames(console: Console, cell: str, found: FrameResult) -> None:
    """Print the way from a frame to the result: a table if it was timed, and remarks."""
    rows = list(list_ways(cell, found))
    if rows:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for index, head in enumerate((COLUMNS[1], *COLUMNS[3:])):
            table.add_column(head, justify="right" if index else "left", overflow="fold")
        for row in rows:
            table.add_row(escape(row[1]), *row[3:])
        console.print(table)
    for remark in list_frame_remarks(found):
        console.print(f"frames: {remark}", markup=False, highlight=False, soft_wrap=True)


def make_table(result: Result) -> Table:
    """Return the table of a package and its baselines. A ratio is the package's time over the baseline's."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for index, head in enumerate(HEADS):
        table.add_column(head, justify="left" if index in (0, len(HEADS) - 1) else "right", overflow="fold")
    table.add_row("package", *_median(result.latency.median))
    for rival in result.rivals:
        ratio = rival.ratio
        shown = (f"{ratio.value:.3f}", f"{ratio.low:.3f}, {ratio.high:.3f}", describe_ratio(ratio))
        table.add_row(escape(rival.name), *_median(rival.latency.median), *shown)
    return table


def _median(estimate: Estimate) -> tuple[str, str]:
    return (format_ms(estimate.value), format_interval(estimate))


def print_error(subject: str, error: TvmbuildError) -> None:
    """Print on stderr why a cell could not be measured."""
    print(f"error: {subject}: {error}", file=sys.stderr)
