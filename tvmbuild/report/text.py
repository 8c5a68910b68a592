"""The texts of the report's numbers, and the report in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tvmbuild.base.wording import count, name_some
from tvmbuild.package.memory import format_size
from tvmbuild.report.cells import CellReport
from tvmbuild.report.frames import COLUMNS as FRAME_COLUMNS
from tvmbuild.report.frames import HEADING, format_time, has_times, list_frame_remarks, list_framed, list_ways
from tvmbuild.report.frames import MEANING as MEANING_OF_FRAMES
from tvmbuild.report.frames import TITLE as FRAMES
from tvmbuild.report.fronts import describe_fronts
from tvmbuild.report.kept import COLUMNS as KEPT_COLUMNS
from tvmbuild.report.kept import MEANING as MEANING_OF_KEPT
from tvmbuild.report.kept import TITLE as KEPT
from tvmbuild.report.kept import list_kept
from tvmbuild.report.latency import COLUMNS as LATENCY_COLUMNS
from tvmbuild.report.latency import (
    INTERVALS,
    OPERATOR_COLUMNS,
    describe_history,
    describe_operators_sum,
    format_ms,
    list_absent,
    list_doubts,
    list_latencies,
    list_machines,
    list_operators,
    list_uncovered_share,
    name_baseline,
    shorten_ratio,
    with_history,
)
from tvmbuild.report.precisions import COLUMNS as PRECISION_COLUMNS
from tvmbuild.report.precisions import MEANING, UNKNOWN, list_precisions
from tvmbuild.report.precisions import TITLE as PRECISIONS

MEANINGLESS = "—"
"""The text in place of a measurement on an emulated board."""
ACCURACY = "Accuracy on real inputs, against the original model"
MEMORY = "The memory is the peak of the process that ran the package, with Python and TVM's runtime."


def columns(cells: Sequence[CellReport]) -> tuple[str, ...]:
    """Return the headings of the table of cells, with the name of the baseline."""
    first = ("model", "target", "status", "tasks covered", "TVM ms", f"{name_baseline(cells)} ms")
    return (*first, "ratio", "max error", "package", "memory", *([HEADING] if has_times(cells) else []))


def cell_values(cell: CellReport) -> tuple[str, ...]:
    """Return the texts of a cell's row, in the order of `columns`. The last one is for that of frames."""
    result, rival, checked = cell.result, cell.rival, cell.checked
    unmeasured = MEANINGLESS if cell.emulated else UNKNOWN
    return (
        cell.model,
        cell.target,
        cell.status,
        UNKNOWN if cell.tasks is None else f"{cell.covered}/{cell.tasks}",
        unmeasured if result is None else format_ms(result.latency.median.value),
        unmeasured if rival is None else format_ms(rival.latency.median.value),
        unmeasured if rival is None else shorten_ratio(rival.ratio),
        UNKNOWN if checked is None else f"{checked.max_abs_error:.1e}",
        UNKNOWN if cell.package_bytes is None else format_size(cell.package_bytes),
        unmeasured if result is None or result.peak_memory_mb is None else f"{result.peak_memory_mb:.0f} MiB",
        format_time(cell, MEANINGLESS if cell.emulated and cell.takes_frames else UNKNOWN),
    )


def summarize_cells(cells: Sequence[CellReport]) -> str:
    """Return one line with the number of cells in each status."""
    counts = {status: sum(cell.status == status for cell in cells) for status in dict.fromkeys(c.status for c in cells)}
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{count(len(cells), 'cell')}: {listed}" if cells else "no cells"


def unavailable(cells: Sequence[CellReport]) -> list[tuple[str, str]]:
    """Return (cells, reason) for the cells not built or not run here, one entry for each target and reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.status in ("unavailable", "built") and cell.reason:
            groups.setdefault((cell.target, cell.reason), []).append(cell.model)
    return [(f"{target} ({name_some(models)})", reason) for (target, reason), models in groups.items()]


def failures(cells: Sequence[CellReport]) -> list[str]:
    """Return one line for each failed cell: the step, the reason, the remedy and the log."""
    lines = []
    for cell in cells:
        if cell.failure is not None:
            step = cell.failure.step
            who = step if step.endswith(f":{cell.name}") else f"{cell.name}: {step}"
            parts = [f"{who}: {_sentence(cell.failure.message)}"]
            parts += [f"Hint: {_sentence(cell.failure.hint)}"] if cell.failure.hint else []
            parts += [f"Log: {cell.failure.log}"] if cell.failure.log else []
            lines.append(" ".join(parts))
    return lines


def _sentence(text: str) -> str:
    return text.rstrip().rstrip(".") + "."


def accuracies(cells: Sequence[CellReport]) -> list[str]:
    """Return one line for each cell whose package was compared with the original model on real inputs."""
    return [f"{cell.name}: {cell.accuracy.describe()}" for cell in cells if cell.accuracy]


def count_uncovered(cells: Sequence[CellReport]) -> list[str]:
    """Return the number of Tasks without a record, in one line for each target.

    A target may have many cells, and these are mostly alike.
    """
    lines = []
    for target in dict.fromkeys(cell.target for cell in cells if cell.uncovered):
        found = [cell for cell in cells if cell.target == target and cell.uncovered]
        lacking, tasks = sum(len(cell.uncovered) for cell in found), sum(cell.tasks or 0 for cell in found)
        name = found[0].name if len(found) == 1 else f"{target}, {len(found)} models"
        reason = next((f"; none is searched here: {cell.reason}" for cell in found if _is_unsearchable(cell)), "")
        lines.append(f"{name}: {lacking} of {count(tasks, 'Task')} without a record{reason}")
    return lines


def _is_unsearchable(cell: CellReport) -> bool:
    """Return whether the cell's reason explains why nothing was searched. No other line shows this reason."""
    return cell.status == "not built" and cell.reason is not None


def list_uncovered(cell: CellReport) -> str:
    """Return number and names of the cell's Tasks without a record. Equal names appear once, with their number."""
    counts = Counter(cell.uncovered)
    listed = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in counts.items())
    return f"{len(cell.uncovered)} of {count(cell.tasks or 0, 'Task')}: {listed}"


def write_markdown(cells: Sequence[CellReport]) -> str:
    """Return the whole report as Markdown."""
    lines = ["# tvmbuild report", "", f"{summarize_cells(cells)}.", ""]
    heads = columns(cells)
    lines += _table(heads, [cell_values(cell)[: len(heads)] for cell in cells], left=3)
    lines += ["", MEMORY]
    latencies = list_latencies(cells)
    if latencies:
        lines += ["", "## Latency", "", *_table(LATENCY_COLUMNS, latencies, left=2), "", INTERVALS]
    framed = list_framed(cells)
    if framed:
        ways = [way for cell, found in framed for way in list_ways(cell.name, found)]
        lines += ["", f"## {FRAMES}", ""]
        lines += [*_table(FRAME_COLUMNS, ways, left=3), "", MEANING_OF_FRAMES, ""] if ways else []
        lines += [
            f"- {_escape(f'{cell.name}: {each}')}" for cell, found in framed for each in list_frame_remarks(found)
        ]
    precisions = list_precisions(cells)
    if precisions:
        lines += ["", f"## {PRECISIONS}", "", *_table(PRECISION_COLUMNS, precisions, left=3), "", MEANING]
        lines += ["", *(f"- {_escape(each)}" for each in describe_fronts(cells))]
    kept = list_kept(cells)
    if kept:
        lines += ["", f"## {KEPT}", "", *_table(KEPT_COLUMNS, kept, left=3), "", MEANING_OF_KEPT]
    for cell in cells:
        operators = list_operators(cell)
        if operators:
            lines += ["", f"## Where the time goes: {_escape(cell.name)}", ""]
            lines += _table(OPERATOR_COLUMNS, operators, left=1)
            lines += ["", said] if (said := describe_operators_sum(cell)) else []
    lines += _section(ACCURACY, [_escape(line) for line in accuracies(cells)])
    lines += _section("Measured on", [_escape(line) for line in list_machines(cells)])
    lines += _section("Warnings: doubtful latencies", [_escape(line) for line in list_doubts(cells)])
    lines += _section("Baselines not measured", [_escape(line) for line in list_absent(cells)])
    lines += _section("History", [_escape(f"{c.name}: {describe_history(c.history)}") for c in with_history(cells)])
    lines += _section("Failed", [_escape(line) for line in failures(cells)])
    lines += _section("Not built or not run here", [f"{_escape(c)}: {_escape(r)}" for c, r in unavailable(cells)])
    lines += _section("Warnings: Tasks without a record", [_uncovered(cell) for cell in cells if cell.uncovered])
    lines += _section("Time in operators without a record", map(_escape, list_uncovered_share(cells)))
    quarantined = [f"{_escape(cell.name)}: {_escape(reason)}" for cell in cells for reason in cell.quarantined]
    lines += _section("Warnings: records in quarantine", quarantined)
    notes = dict.fromkeys(f"{_escape(cell.name)}: {_escape(note)}" for cell in cells for note in cell.notes)
    lines += _section("Notes", notes)
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> list[str]:
    """Return the lines of a Markdown table whose first ``left`` columns are words and whose others are numbers."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * left + "---:|" * (len(heads) - left)]
    return lines + ["| " + " | ".join(_escape(value) for value in row) + " |" for row in rows]


def _section(title: str, entries: Iterable[str]) -> list[str]:
    listed = [f"- {entry}" for entry in entries]
    return ["", f"## {title}", "", *listed] if listed else []


def _uncovered(cell: CellReport) -> str:
    return f"{_escape(cell.name)}: {_escape(list_uncovered(cell))}"


def _escape(text: str) -> str:
    """Return the text in one line, with every character escaped that Markdown or HTML would interpret."""
    flat = " ".join(text.split()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "|`*_[]":
        flat = flat.replace(mark, "\\" + mark)
    return flat
