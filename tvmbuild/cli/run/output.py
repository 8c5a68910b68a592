"""The output of `tvmbuild run`: outputs, latency, and the table of operators; and the profile as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tvmbuild.base.size_specs import Size
from tvmbuild.base.wording import count
from tvmbuild.cli.run.measure import Measurement, Taken
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.memory import find_memory, format_size
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.profile import Clock, GraphTime, OperatorRow, Peak, is_on_host, share_of_peak
from tvmbuild.package.ranking import is_ranking, rank_classes

PROFILE_FORMAT = 1
UNKNOWN = "-"
_KEY_DIGITS = 8


def print_outputs(console: Console, title: str, outputs: Mapping[str, np.ndarray]) -> None:
    """Print name, type, shape and range of each output."""
    table = Table(box=None, pad_edge=False, title=escape(title), title_justify="left")
    for heading in ("output", "dtype", "shape"):
        table.add_column(heading)
    for heading in ("min", "mean", "max"):
        table.add_column(heading, justify="right")
    for name, value in outputs.items():
        numbers = value.astype(np.float64) if value.size else np.full(1, np.nan)
        figures = (f"{figure:.6g}" for figure in (numbers.min(), numbers.mean(), numbers.max()))
        table.add_row(escape(name), str(value.dtype), escape(str(list(value.shape))), *figures)
    console.print(table)


def print_ranking(console: Console, info: PackageInfo, outputs: Mapping[str, np.ndarray], best: int) -> None:
    """Print the ``best`` likeliest classes of each output that has one score for each class.

    Raises TvmbuildError if no output has one score for each class.
    """
    rankings = {name: value for name, value in outputs.items() if is_ranking(value.shape)}
    if not rankings:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in outputs.items())
        raise TvmbuildError(f"--print-top: no output of {info.model} has one score for each class: {shapes}")
    for name, value in rankings.items():
        table = Table(box=None, pad_edge=False)
        table.add_column("class", justify="right")
        table.add_column("probability", justify="right")
        table.add_column(escape(name))
        for each in rank_classes(value, info.labels, best):
            table.add_row(str(each.index), f"{each.probability:.6f}", escape(each.label or UNKNOWN))
        console.print(table)


def print_memory(console: Console, info: PackageInfo, taken: Taken) -> None:
    """Print the parts of the package's memory, and beside them what was measured."""
    memory = find_memory(info)
    console.print(f"memory: {format_size(memory.total)}: {memory.describe()}", highlight=False)
    if memory.largest:
        console.print(f"its largest arrays: {memory.list_largest()}", highlight=False, markup=False, soft_wrap=True)
    if taken.call is not None:
        stated = format_size((memory.workspace or 0) + (memory.scratch or 0))
        told = f"measured: a call took {format_size(taken.call)}; workspace and scratch are {stated}"
        console.print(told, highlight=False)
    if taken.peak_mb is not None:
        peak = format_size(round(taken.peak_mb * 2**20))
        console.print(f"the process that ran it, with Python and TVM's runtime, took {peak} at most", highlight=False)


def print_latency(console: Console, measurement: Measurement) -> None:
    """Print the statistics of the latency in one line."""
    each = measurement.latency
    figures = ", ".join(f"{name} {getattr(each, name):.3f}" for name in ("median", "mean", "min", "max", "std"))
    samples = f"{each.repeat} samples of {count(each.number, 'call')}, {count(measurement.threads, 'thread')}"
    console.print(f"latency in ms: {figures} ({samples})", highlight=False)


def print_profile(console: Console, info: PackageInfo, measurement: Measurement) -> None:
    """Print a table of the operators, the longest first, with their sum and the latency without the profiler."""
    peak = measurement.peak
    table = Table(box=None, pad_edge=False, show_footer=True)
    total = sum(row.us for row in measurement.rows)
    unprofiled = measurement.latency.median * 1e3
    last = "latency without profiler"
    table.add_column("operator", footer=f"sum\n{last}", overflow="fold", min_width=len(last))
    table.add_column("task", footer="\n")
    table.add_column("calls", justify="right", footer=f"{sum(row.calls for row in measurement.rows)}\n")
    table.add_column("µs", justify="right", footer=f"{total:.1f}\n{unprofiled:.1f}")
    table.add_column("share", justify="right", footer=f"100.0%\n{unprofiled / total:.1%}" if total else "")
    for heading in ("GFLOP/s", "of peak", "GB/s", "of memory"):
        table.add_column(heading, justify="right", footer="\n")
    table.add_column("record", footer="\n")
    for row in measurement.rows:
        table.add_row(*_cells(row, peak))
    console.print(table)
    if peak is not None:
        console.print(describe_peak(peak), highlight=False, markup=False)
    if info.target.on_gpu and info.operators is not None:
        console.print(describe_places(info.target.kind, measurement.rows), highlight=False, markup=False)
    if info.target.on_gpu:
        console.print(describe_clock(info.target.kind, measurement.clock), highlight=False, markup=False)
    if measurement.graph is not None:
        console.print(describe_graph(measurement.graph), highlight=False, markup=False)


def describe_peak(peak: Peak) -> str:
    """Return a sentence with the peaks that the shares refer to, and with how they were measured."""
    whose = f"peak with {count(peak.threads, 'thread')}" if peak.threads else "peak of the card"
    return (
        f"{whose}: {peak.gflops:.0f} GFLOP/s ({peak.compute}), {peak.gb_s:.1f} GB/s "
        f"({peak.memory}). Memory is shown if it would be the limit without caches; over 100%, data came from a cache."
    )


def describe_places(kind: str, rows: Sequence[OperatorRow]) -> str:
    """Return a sentence with the operators of a GPU package that ran on the CPU."""
    host = [row for row in rows if is_on_host(row)]
    if not host:
        return f"every operator ran on the {kind} device"
    share = sum(row.share for row in host)
    return f"not on the {kind} device, {share:.1%} of the time: {', '.join(row.name for row in host)}"


def describe_clock(kind: str, clock: Clock) -> str:
    """Return a sentence about the clock that timed a GPU package's operators, and its effect on their sum."""
    if clock == "device":
        return f"timed by the {kind} device; what the latency has beyond the sum is launching and waiting"
    return f"timed on the host, with a wait after each call: what a launch costs is in every time of the {kind} device"


def describe_graph(graph: GraphTime) -> str:
    """Return a sentence with the time of the whole CUDA graph and the sum of its kernels' times."""
    return (
        f"CUDA graph: {count(graph.kernels, 'kernel')}, {graph.sum_us:.1f} µs in all; {graph.us:.1f} µs from where "
        "the first begins to where the last ends"
    )


def profile_json(info: PackageInfo, measurement: Measurement, size: Size | None = None) -> dict[str, object]:
    """Return the JSON value of a profile, format 1. ``size`` is that of the inputs if the package has several."""
    peak = measurement.peak
    return {
        "format": PROFILE_FORMAT,
        "model": info.model,
        "target": info.target.name,
        "size": None if size is None else dict(size.values),
        "machine": measurement.machine,
        "threads": measurement.threads,
        "clock": measurement.clock,
        "latency_ms": asdict(measurement.latency),
        "sum_us": sum(row.us for row in measurement.rows),
        "graph": None if measurement.graph is None else asdict(measurement.graph),
        "peak": None if peak is None else peak.to_json(),
        "operators": [_row_json(row, peak, on_gpu=info.target.on_gpu) for row in measurement.rows],
    }


def _row_json(row: OperatorRow, peak: Peak | None, *, on_gpu: bool) -> dict[str, object]:
    bound = None if peak is None else share_of_peak(row, peak)
    limits = {"bound": None, "of_peak": None} if bound is None else {"bound": bound.by, "of_peak": bound.share}
    place = {"on_host": is_on_host(row)} if on_gpu else {}
    return {**row.to_json(), **place, "gflops": row.gflops, "gb_s": row.gb_s, **limits}


def _cells(row: OperatorRow, peak: Peak | None) -> list[str]:
    bound = None if peak is None else share_of_peak(row, peak)
    memory = None if bound is None or bound.by == "compute" else bound.share
    records = {True: "yes", False: "[yellow]no[/]", None: UNKNOWN}
    return [
        escape(row.name),
        row.key[:_KEY_DIGITS] if row.key else UNKNOWN,
        str(row.calls),
        f"{row.us:.1f}",
        f"{row.share:.1%}",
        UNKNOWN if row.gflops is None else f"{row.gflops:.1f}",
        UNKNOWN if row.gflops is None or peak is None else f"{row.gflops / peak.gflops:.0%}",
        UNKNOWN if row.gb_s is None or memory is None else f"{row.gb_s:.1f}",
        UNKNOWN if memory is None else f"{memory:.0%}",
        records[row.covered],
    ]
