"""How the report writes numbers, and its Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tvmbuild.stages.report_data import CellReport

COLUMNS = (
    "model",
    "target",
    "status",
    "tasks covered",
    "TVM ms",
    "ONNX Runtime ms",
    "ratio",
    "max error",
    "package",
    "memory",
)
UNKNOWN = "-"
MEMORY = "The memory is the peak of the process that ran the package, with Python and TVM's runtime."


def format_ms(value: float) -> str:
    """Return milliseconds with about three digits."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{digits}f}"


def format_bytes(value: int) -> str:
    """Return a size in KB or MB."""
    return f"{value / 1e6:.1f} MB" if value >= 1e6 else f"{value / 1e3:.0f} KB"


def cell_values(cell: CellReport) -> tuple[str, ...]:
    """Return the texts of COLUMNS."""
    speed = cell.speed
    return (
        cell.model,
        cell.target,
        cell.status,
        UNKNOWN if cell.tasks is None else f"{cell.covered}/{cell.tasks}",
        UNKNOWN if speed is None else format_ms(speed.tvm_ms),
        UNKNOWN if speed is None else format_ms(speed.onnxruntime_ms),
        UNKNOWN if speed is None else f"{speed.ratio:.2f}x",
        UNKNOWN if cell.max_abs_error is None else f"{cell.max_abs_error:.1e}",
        UNKNOWN if cell.package_bytes is None else format_bytes(cell.package_bytes),
        UNKNOWN if cell.peak_memory_mb is None else f"{cell.peak_memory_mb:.0f} MiB",
    )


def summarize_cells(cells: Sequence[CellReport]) -> str:
    """Return one line: how many cells there are of each status."""
    counts = {status: sum(cell.status == status for cell in cells) for status in dict.fromkeys(c.status for c in cells)}
    listed = ", ".join(f"{count} {status}" for status, count in counts.items())
    noun = "cell" if len(cells) == 1 else "cells"
    return f"{len(cells)} {noun}: {listed}" if cells else "no cells"


def machines(cells: Sequence[CellReport]) -> list[str]:
    """Return where the latencies come from, one line a target."""
    lines = (f"{c.target}: {c.speed.machine}, {c.speed.threads} threads" for c in cells if c.speed)
    return list(dict.fromkeys(lines))


def unavailable(cells: Sequence[CellReport]) -> list[tuple[str, str]]:
    """Return (cells, reason) of what was not built or not run here, one entry a target and reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.status in ("unavailable", "built") and cell.reason:
            groups.setdefault((cell.target, cell.reason), []).append(cell.model)
    return [(f"{target} ({', '.join(models)})", reason) for (target, reason), models in groups.items()]


def failures(cells: Sequence[CellReport]) -> list[str]:
    """Return what failed, why, the remedy and the log, one line a failed cell."""
    lines = []
    for cell in cells:
        if cell.failure is not None:
            parts = [f"{cell.name}: {cell.failure.step}: {_sentence(cell.failure.message)}"]
            parts += [f"Hint: {_sentence(cell.failure.hint)}"] if cell.failure.hint else []
            parts += [f"Log: {cell.failure.log}"] if cell.failure.log else []
            lines.append(" ".join(parts))
    return lines


def _sentence(text: str) -> str:
    return text.rstrip().rstrip(".") + "."


def list_uncovered(cell: CellReport) -> str:
    """Return how many Tasks have no record, and which: equal names once, with their number."""
    counts = Counter(cell.uncovered)
    listed = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in counts.items())
    return f"{len(cell.uncovered)} of {cell.tasks} Tasks: {listed}"


def write_markdown(cells: Sequence[CellReport]) -> str:
    """Return the whole report as Markdown."""
    lines = ["# tvmbuild report", "", f"{summarize_cells(cells)}.", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---|---|---|" + "---:|" * (len(COLUMNS) - 3)]
    lines += ["| " + " | ".join(_escape(value) for value in cell_values(cell)) + " |" for cell in cells]
    lines += ["", "The ratio is TVM's median over ONNX Runtime's, measured in turns in one run: below 1 TVM is faster."]
    lines += [MEMORY]
    lines += _section("Measured on", [_escape(line) for line in machines(cells)])
    lines += _section("Failed", [_escape(line) for line in failures(cells)])
    lines += _section("Not built or not run here", [f"{_escape(c)}: {_escape(r)}" for c, r in unavailable(cells)])
    lines += _section("Warnings: Tasks without a record", [_uncovered(cell) for cell in cells if cell.uncovered])
    quarantined = [f"{_escape(cell.name)}: {_escape(reason)}" for cell in cells for reason in cell.quarantined]
    lines += _section("Warnings: records in quarantine", quarantined)
    notes = dict.fromkeys(f"{_escape(cell.name)}: {_escape(note)}" for cell in cells for note in cell.notes)
    lines += _section("Notes", notes)
    return "\n".join(lines) + "\n"


def _section(title: str, entries: Iterable[str]) -> list[str]:
    listed = [f"- {entry}" for entry in entries]
    return ["", f"## {title}", "", *listed] if listed else []


def _uncovered(cell: CellReport) -> str:
    return f"{_escape(cell.name)}: {_escape(list_uncovered(cell))}"


def _escape(text: str) -> str:
    """Keep a text from being read as Markdown or HTML."""
    flat = " ".join(text.split()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "|`*_[]":
        flat = flat.replace(mark, "\\" + mark)
    return flat
