"""The facts of a cell, one line each.

They are the first part of the cell's section, and the page compares two cells or two runs by them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import Estimate, describe_ratio
from tvmbuild.benchmarking.history import Entry
from tvmbuild.package.memory import format_size
from tvmbuild.report.cells import CellReport
from tvmbuild.report.latency import NAMES, describe_state, format_ratio, format_spread

LATENCY = "median latency, ms"
FRAME_LATENCY = "frame → result, ms"
COVERED = "Tasks with a record"
MEASURED = "measured"
RUN_COLUMNS = (MEASURED, LATENCY, "package", COVERED)
"""The columns of the table of a cell's runs. The ratios to the baselines follow, named by `name_ratio`."""


@dataclass(frozen=True)
class Fact:
    """One fact: its name and its text.

    It has an ``estimate`` if the ratio of two cells' facts of this name is meaningful.
    """

    name: str
    text: str
    estimate: Estimate | None = None


def name_ratio(baseline: str) -> str:
    """Return the name of the fact with the ratio to a baseline: `over ONNX Runtime`."""
    return f"over {NAMES.get(baseline, baseline)}"


def list_facts(cell: CellReport) -> list[Fact]:
    """Return all facts of the cell. The text of an unknown fact gives the reason."""
    return [Fact("state", cell.status if cell.reason is None else f"{cell.status}: {cell.reason}"), *_list_known(cell)]


def _list_memory(cell: CellReport) -> Iterator[Fact]:
    result = cell.result
    if cell.memory is not None:
        yield Fact("memory", f"{format_size(cell.memory.total)}: {cell.memory.describe()}")
    if result and result.call_memory_mb is not None:
        taken = format_size(round(result.call_memory_mb * 2**20))
        yield Fact("measured in a call", f"{taken} of workspace and scratch memory")
    if result and result.peak_memory_mb is not None:
        yield Fact("peak memory", f"{result.peak_memory_mb:.0f} MiB with Python and TVM's runtime")


def _list_known(cell: CellReport) -> Iterator[Fact]:
    result, checked = cell.result, cell.checked
    if result:
        median = result.latency.median
        yield Fact(LATENCY, format_spread(median), median)
        yield Fact("95 of 100 calls within, ms", f"{result.latency.p95:.4g}")
        for rival in result.rivals:
            text = f"{format_ratio(rival.ratio)}, {describe_ratio(rival.ratio)}"
            yield Fact(name_ratio(rival.name), text, rival.ratio)
    else:
        yield Fact(LATENCY, "none: emulated boards have no times" if cell.emulated else "none: not benchmarked")
    yield from _list_frame_facts(cell)
    yield Fact(COVERED, "not known" if cell.tasks is None else f"{cell.covered} of {cell.tasks}")
    if checked:
        yield Fact("largest error", f"{checked.max_abs_error:.1e} absolute, {checked.max_rel_error:.1e} relative")
    elif cell.validated:
        yield Fact("largest error", cell.validated.describe())
    else:
        yield Fact("largest error", "not known: no device ran the package")
    agreement = cell.accuracy
    yield Fact("accuracy on real inputs", agreement.describe() if agreement else "not known: none were compared")
    yield Fact("package size", "none built" if cell.package_bytes is None else format_size(cell.package_bytes))
    yield from _list_memory(cell)
    if cell.built_for:
        yield Fact("precision", cell.built_for.precision)
    if checked:
        yield Fact("machine", checked.machine.name)
        yield Fact("its state", describe_state(checked.machine) or "not known")
        yield Fact("threads", count(checked.threads, "thread"))
        yield Fact("package", checked.product.sha256[:12])
    # `tvmbuild bench` adds runs to the history that are not the cell's result.
    own = [entry.time for entry in cell.history if result and entry.result.latency == result.latency]
    if own:
        yield Fact(MEASURED, format_time(own[-1]))


def _list_frame_facts(cell: CellReport) -> Iterator[Fact]:
    """Yield the time from the frame to the result, or the reason why a package that takes frames has none."""
    found = cell.checked.frames if cell.checked else None
    if found is None:
        if cell.takes_frames:
            yield Fact(FRAME_LATENCY, "none: no benchmark of this version ran the package")
        return
    if found.times is None:
        yield Fact(FRAME_LATENCY, f"none: {'; '.join(found.notes) or 'emulated boards have no times'}")
        return
    median = found.times.latency.median
    yield Fact(FRAME_LATENCY, format_spread(median), median)
    yield Fact("CPU time of a frame, ms", f"{found.times.cpu_ms:.4g}")
    for rival in found.rivals:
        text = f"{format_ratio(rival.ratio)}, {describe_ratio(rival.ratio)}"
        yield Fact(name_ratio(rival.name), text, rival.ratio)


def format_time(seconds: int) -> str:
    """Return seconds since the epoch as a date and a time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def has_frame_times(entries: Sequence[Entry]) -> bool:
    """Return whether a run has a time from the frame to the result."""
    return any(entry.result.frames and entry.result.frames.times for entry in entries)


def list_run(entry: Entry, baselines: tuple[str, ...], *, framed: bool = False) -> tuple[str, ...]:
    """Return one run's texts for RUN_COLUMNS, then its ratios to the baselines.

    With ``framed``, the time from the frame to the result follows.
    """
    result = entry.result
    ratios = {rival.name: rival.ratio for rival in result.rivals}
    times = result.frames.times if result.frames else None
    return (
        format_time(entry.time),
        format_spread(result.latency.median),
        result.product.sha256[:12],
        f"{result.product.covered} of {result.product.tasks}",
        *(format_ratio(ratios[name]) if name in ratios else "-" for name in baselines),
        *([format_spread(times.latency.median) if times else "-"] if framed else []),
    )
