"""Latencies, intervals and verdicts as texts, the same in the reports and in `tvmbuild bench`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from tvmbuild.base.wording import count, name_some
from tvmbuild.benchmarking.estimates import Estimate, Latency, describe_ratio, judge
from tvmbuild.benchmarking.history import Entry
from tvmbuild.benchmarking.results import Rival
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.report.cells import CellReport

NAMES = {
    "tvm": "TVM",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "tvm-untuned": "TVM untuned",
    "opencv": "OpenCV + ONNX Runtime",
}
"""The names of contenders in headings. A package, which is not here, is named by its path."""
OPERATOR_COLUMNS = ("operator", "calls", "us", "share", "GFLOP/s", "record")
TOP_OPERATORS = 5
CLOCK_SHOWS = 1.25
"""The ratio of the operators' sum to the time of a whole call above which a text explains the difference."""
COLUMNS = ("cell", "against", "TVM ms", "its ms", "ratio", "TVM is")
INTERVALS = (
    "In brackets: 95 % intervals, from rounds drawn again (bootstrap). The ratio is TVM's time over the other's, "
    "measured in turns in one run: below 1 TVM is faster. No difference (~): the interval holds 1."
)


def format_ms(value: float) -> str:
    """Return milliseconds with about three digits."""
    return _with_digits(value, 3)


def format_spread(estimate: Estimate) -> str:
    """Return the value and its interval, with a digit more than the value by itself: ``4.012 [3.987, 4.051]``."""
    return f"{_with_digits(estimate.value, 4)} [{format_interval(estimate)}]"


def format_interval(estimate: Estimate) -> str:
    """Return the two ends of the interval: ``3.987, 4.051``."""
    return f"{_with_digits(estimate.low, 4)}, {_with_digits(estimate.high, 4)}"


def format_ratio(estimate: Estimate) -> str:
    """Return a ratio and its interval: ``0.812 [0.790, 0.830]``."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def shorten_ratio(estimate: Estimate) -> str:
    """Return only the ratio: ``0.81x``, or ``~1.02x`` if there is no difference."""
    return f"{'~' if judge(estimate) == 'no difference' else ''}{estimate.value:.2f}x"


def _with_digits(value: float, digits: int) -> str:
    """Return the value with that many significant digits. Digits before the decimal point are never dropped."""
    whole = 3 if value >= 100 else 2 if value >= 10 else 1 if value >= 1 else 0
    return f"{value:.{max(0, digits - whole)}f}"


def name_baseline(cells: Sequence[CellReport]) -> str:
    """Return the name of the cells' first baseline, or `baseline` if the cells have different ones."""
    names = {cell.rival.name for cell in cells if cell.rival}
    return NAMES.get(names.pop(), "baseline") if len(names) == 1 else "baseline"


def list_latencies(cells: Sequence[CellReport]) -> list[tuple[str, ...]]:
    """Return the rows, with the texts of COLUMNS: one for each cell, or size of it, and baseline.

    A size without baselines has one row.
    """
    return [
        row for cell in cells for name, latency, rivals in list_sizes(cell) for row in _compare(name, latency, rivals)
    ]


def _compare(name: str, latency: Latency, rivals: Sequence[Rival]) -> list[tuple[str, ...]]:
    ours = format_spread(latency.median)
    return [
        (
            name,
            NAMES.get(rival.name, rival.name),
            ours,
            format_spread(rival.latency.median),
            format_ratio(rival.ratio),
            describe_ratio(rival.ratio),
        )
        for rival in rivals
    ] or [(name, "-", ours, "-", "-", "-")]


def list_sizes(cell: CellReport) -> list[tuple[str, Latency, tuple[Rival, ...]]]:
    """Return the name, latency and baselines of the cell's package, and of each other size of it."""
    result = cell.result
    if result is None:
        return []
    others = [(f"{cell.name} at {each.size}", each.latency, each.rivals) for each in result.sizes]
    return [(cell.name, result.latency, result.rivals), *others]


def list_absent(cells: Sequence[CellReport]) -> list[str]:
    """Return the baselines that were not measured, each with its cells and the reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for each in cell.result.absent if cell.result else ():
            groups.setdefault((each.name, each.reason), []).append(cell.name)
    return [f"{NAMES.get(name, name)} ({name_some(of)}): {reason}" for (name, reason), of in groups.items()]


def list_machines(cells: Sequence[CellReport]) -> list[str]:
    """Return the machines that ran the packages, one line for each target and machine."""
    found = ((cell.target, cell.checked, " (emulated: no times)" if cell.emulated else "") for cell in cells)
    lines = (f"{name}: {r.machine.cpu}, {count(r.threads, 'thread')}{note}" for name, r, note in found if r)
    return list(dict.fromkeys(lines))


def list_doubts(cells: Sequence[CellReport]) -> list[str]:
    """Return one line for each reason to doubt a cell's latency, or its time from a frame to the result."""
    return [
        f"{cell.name}: {warning}"
        for cell in cells
        if cell.result
        for warning in (*cell.result.warnings, *(cell.result.frames.warnings if cell.result.frames else ()))
    ]


def describe_machine(machine: MachineState) -> str:
    """Return the name of the machine and, if recorded, its state while it timed, in one line."""
    state = describe_state(machine)
    return f"{machine.name}, {state}" if state else machine.name


def describe_state(machine: MachineState) -> str:
    """Return the machine's state while it timed, or an empty text if it was not recorded."""
    parts = [f"governor {machine.governor}"] if machine.governor else []
    parts += [] if machine.load is None else [f"load {machine.load:g} before"]
    parts += [] if machine.others is None else [f"others took {machine.others:.1%}"]
    parts += [] if machine.temperature_c is None else [f"{machine.temperature_c:.0f} °C"]
    return ", ".join(parts)


def describe_history(entries: Sequence[Entry]) -> str:
    """Return the number of the cell's benchmarks, their dates, and the range of the medians."""
    medians = [entry.result.latency.median.value for entry in entries]
    first, last = (time.strftime("%Y-%m-%d", time.gmtime(entries[index].time)) for index in (0, -1))
    when = first if first == last else f"{first} to {last}"
    return f"{len(entries)} benchmarks, {when}: {format_ms(min(medians))} to {format_ms(max(medians))} ms"


def with_history(cells: Iterable[CellReport]) -> list[CellReport]:
    """Return the cells that have more than one benchmark to show."""
    return [cell for cell in cells if len(cell.history) > 1]


def list_operators(cell: CellReport) -> list[tuple[str, ...]]:
    """Return the texts of OPERATOR_COLUMNS for the operators that take most of the cell's time."""
    rows = cell.result.operators[:TOP_OPERATORS] if cell.result else ()
    return [
        (
            row.name,
            str(row.calls),
            f"{row.us:.0f}",
            f"{row.share:.0%}",
            "-" if row.gflops is None else f"{row.gflops:.0f}",
            "-" if row.covered is None else "yes" if row.covered else "no",
        )
        for row in rows
    ]


def describe_operators_sum(cell: CellReport) -> str:
    """Return a sentence about the sum of the operators' times if the clock made it much longer than a whole call.

    Otherwise return an empty text.
    """
    if cell.result is None or (cell.built_for is not None and cell.built_for.on_gpu):
        return ""  # a GPU's own clock costs nothing, and its sum is not the time of a call
    total, whole = sum(row.us for row in cell.result.operators), cell.result.latency.median.value * 1e3
    if total < CLOCK_SHOWS * whole:
        return ""
    return (
        f"Timed one by one they take {total:.0f} us together, the whole call {format_ms(whole)} us: "
        "the clock costs a few us for each call."
    )


def list_uncovered_share(cells: Sequence[CellReport]) -> list[str]:
    """Return one line for each cell that spends time in operators without a record, with their share of its time."""
    shares = {
        cell.name: sum(row.share for row in cell.result.operators if row.covered is False)
        for cell in cells
        if cell.result
    }
    return [f"{name}: {share:.0%} of its time" for name, share in shares.items() if share > 0]
