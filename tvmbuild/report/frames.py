"""The way from a frame to the result as texts, the same in the reports and in `tvmbuild bench`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmbuild.benchmarking.estimates import describe_ratio
from tvmbuild.benchmarking.frames.results import PARTS, FrameResult, FrameTimes
from tvmbuild.report.cells import CellReport
from tvmbuild.report.latency import NAMES, format_ms, format_ratio

HEADING = "frame → result ms"
"""The heading of the column with the median time from a frame to the result."""
TITLE = "From the frame to the result"
COLUMNS = ("cell", "way", "frame", HEADING, "95 %", "99 %", *PARTS, "CPU ms", "J", "ratio")
UNTIMED = "not timed"
MEANING = (
    "The time of one call, from a frame's bytes to boxes or classes, and the times within which 95 and 99 of 100 calls "
    "end. The parts were timed alone, so they need not add up. CPU ms is the CPU time of the process for one frame, "
    "over all its threads; J is the machine's energy for one frame, where the machine tells it."
)


def list_framed(cells: Sequence[CellReport]) -> list[tuple[CellReport, FrameResult]]:
    """Return the benchmarked cells whose packages take frames or make results."""
    return [(cell, cell.checked.frames) for cell in cells if cell.checked and cell.checked.frames]


def has_times(cells: Sequence[CellReport]) -> bool:
    """Return whether the way from a frame to the result was timed in a cell."""
    return any(found.times for _, found in list_framed(cells))


def format_time(cell: CellReport, unknown: str) -> str:
    """Return the median time of a cell from the frame to the result, or ``unknown``."""
    found = cell.checked.frames if cell.checked else None
    return unknown if found is None or found.times is None else format_ms(found.times.latency.median.value)


def find_joules(cell: CellReport) -> float | None:
    """Return the machine's energy for one frame of a cell, or None if it is not known."""
    found = cell.checked.frames if cell.checked else None
    return None if found is None or found.times is None else found.times.joules


def format_joules(joules: float) -> str:
    """Return the figure without its unit."""
    return f"{joules:.3g}"


def list_ways(name: str, found: FrameResult) -> Iterator[tuple[str, ...]]:
    """Yield the texts of COLUMNS for the package's way and for each other one. ``name`` is the cell's."""
    if found.times is None:
        return
    frame = found.frame or ""
    yield (name, NAMES["tvm"], frame, *_list_times(found.times), "")
    for rival in found.rivals:
        yield (name, NAMES.get(rival.name, rival.name), frame, *_list_times(rival.times), format_ratio(rival.ratio))


def _list_times(times: FrameTimes) -> tuple[str, ...]:
    parts = (format_ms(times.parts_ms[name]) if name in times.parts_ms else "-" for name in PARTS)
    joules = "-" if times.joules is None else format_joules(times.joules)
    ends = (format_ms(each) for each in (times.latency.median.value, times.latency.p95, times.p99))
    return (*ends, *parts, format_ms(times.cpu_ms), joules)


def list_frame_remarks(found: FrameResult) -> Iterator[str]:
    """Yield remarks about the comparison, the other ways, the parts not measured, and the state of the machine."""
    yield f"compared with plain NumPy: {found.check.describe()}"
    for rival in found.rivals:
        name = NAMES.get(rival.name, rival.name)
        yield f"{name} {rival.version}: TVM is {describe_ratio(rival.ratio)}; {rival.agreement}"
    for name, reason in found.absent:
        yield f"{NAMES.get(name, name)}: not measured: {reason}"
    yield from found.notes
    yield from (f"doubtful: {warning}" for warning in found.warnings)
    if found.times is not None and found.found is not None:
        yield f"the frame is drawn; the thresholds let {found.found} results through"
    if found.throttled:
        yield f"heat slowed the cores down {found.throttled} times"
    state = [] if found.temperature_c is None else [f"{found.temperature_c:.0f} °C"]
    state += [] if found.clock is None else [f"clock at {found.clock:.0%} of its highest rate"]
    if state:
        yield f"at the end: {', '.join(state)}"


def list_unmeasured(cells: Sequence[CellReport]) -> list[str]:
    """Return one line for each reason why frames or results of a cell were not compared, timed or timed beside others.

    A cell whose package no device ran has such a line too.
    """
    lines = []
    for cell, found in list_framed(cells):
        lines += [f"{cell.name}: {NAMES.get(name, name)}: {reason}" for name, reason in found.absent]
        lines += [f"{cell.name}: {note}" for note in found.notes]
    for cell in cells:
        if cell.takes_frames and not cell.checked:
            told = cell.validated.frames if cell.validated else None
            lines.append(f"{cell.name}: {told or 'frames and results were not compared: no device ran the package'}")
    return lines
