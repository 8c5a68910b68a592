"""The report as one HTML file: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tvmbuild.report.cells import CellReport
from tvmbuild.report.charts import STYLE as CHART_STYLE
from tvmbuild.report.charts import draw_latencies, draw_trend
from tvmbuild.report.latency import COLUMNS as LATENCY_COLUMNS
from tvmbuild.report.latency import (
    INTERVALS,
    OPERATOR_COLUMNS,
    describe_history,
    list_absent,
    list_doubts,
    list_latencies,
    list_machines,
    list_operators,
    list_uncovered_share,
    with_history,
)
from tvmbuild.report.precisions import COLUMNS as PRECISION_COLUMNS
from tvmbuild.report.precisions import MEANING, list_precisions
from tvmbuild.report.precisions import TITLE as PRECISIONS
from tvmbuild.report.text import (
    ACCURACY,
    MEMORY,
    accuracies,
    cell_values,
    columns,
    failures,
    list_uncovered,
    summarize_cells,
    unavailable,
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --tvm: #2f6fde; --other: #9aa3ad; --ok: #1a7f37; --bad: #cf222e;
  --dim: #808890; }
@media (prefers-color-scheme: dark) { :root { --tvm: #5b93f5; --other: #767f8a; --ok: #3fb950; --bad: #f4605a; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td:nth-child(-n+2) { white-space: nowrap; }
td:nth-child(n+4), th:nth-child(n+4) { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.status { font-weight: 600; white-space: nowrap; }
.s-ok { color: var(--ok); } .s-failed { color: var(--bad); }
.s-unavailable, .s-built, .s-not-built { color: var(--dim); }
.reason { color: var(--dim); font-size: .85rem; max-width: 28rem; overflow-wrap: anywhere; }
li { overflow-wrap: anywhere; margin: .2rem 0; }
.plain { list-style: none; padding: 0; }
h3 { font-size: .95rem; margin: 1rem 0 .2rem; } .operators table { width: auto; min-width: 34rem; }
.operators td:nth-child(n+2), .operators th:nth-child(n+2) { text-align: right; font-variant-numeric: tabular-nums; }
.latency td:nth-child(n+3), .latency th:nth-child(n+3) { text-align: right; font-variant-numeric: tabular-nums; }
"""


def write_html(cells: Sequence[CellReport]) -> str:
    """Return the whole report; every text from outside is escaped."""
    body = [
        "<h1>tvmbuild report</h1>",
        f"<p>{escape(summarize_cells(cells))}.</p>",
        _table(cells),
        f"<p>{escape(MEMORY)}</p>",
        draw_latencies(cells),
        _latencies(cells),
        _precisions(cells),
        _operators(cells),
        _history(cells),
        _section(ACCURACY, accuracies(cells)),
        _section("Measured on", list_machines(cells)),
        _section("Warnings: doubtful latencies", list_doubts(cells)),
        _section("Baselines not measured", list_absent(cells)),
        _section("Failed", failures(cells)),
        _section("Not built or not run here", [f"{subject}: {reason}" for subject, reason in unavailable(cells)]),
        _section(
            "Warnings: Tasks without a record",
            [f"{cell.name}: {list_uncovered(cell)}" for cell in cells if cell.uncovered],
        ),
        _section("Time in operators without a record", list_uncovered_share(cells)),
        _section(
            "Warnings: records in quarantine",
            [f"{cell.name}: {reason}" for cell in cells for reason in cell.quarantined],
        ),
        _section("Notes", dict.fromkeys(f"{cell.name}: {note}" for cell in cells for note in cell.notes)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>tvmbuild report</title>\n<style>{_STYLE}{CHART_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _table(cells: Sequence[CellReport]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns(cells))
    rows = "\n".join(f"<tr>{_row(cell)}</tr>" for cell in cells)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _row(cell: CellReport) -> str:
    parts = [f"<td>{escape(value)}</td>" for value in cell_values(cell)]
    kind = cell.status.replace(" ", "-")
    # Why a cell is not built is the same for a whole target: said once, below the table.
    reason = f'<div class="reason">{escape(cell.reason or "")}</div>' if cell.status == "failed" else ""
    parts[2] = f'<td><span class="status s-{kind}">{escape(cell.status)}</span>{reason}</td>'
    return "".join(parts)


def _section(title: str, entries: Iterable[str]) -> str:
    listed = "\n".join(f"<li>{escape(entry)}</li>" for entry in entries)
    return f"<h2>{escape(title)}</h2>\n<ul>\n{listed}\n</ul>" if listed else ""


def _latencies(cells: Sequence[CellReport]) -> str:
    rows = list_latencies(cells)
    if not rows:
        return ""
    return f"{_grid(LATENCY_COLUMNS, rows, 'latency')}\n<p>{escape(INTERVALS)}</p>"


def _precisions(cells: Sequence[CellReport]) -> str:
    rows = list_precisions(cells)
    if not rows:
        return ""
    grid = _grid(PRECISION_COLUMNS, rows, "precisions")
    return f"<h2>{escape(PRECISIONS)}</h2>\n{grid}\n<p>{escape(MEANING)}</p>"


def _operators(cells: Sequence[CellReport]) -> str:
    parts = [
        f"<h3>{escape(cell.name)}</h3>\n{_grid(OPERATOR_COLUMNS, rows, 'operators')}"
        for cell in cells
        if (rows := list_operators(cell))
    ]
    return "\n".join(["<h2>Where the time goes</h2>", *parts]) if parts else ""


def _history(cells: Sequence[CellReport]) -> str:
    listed = "\n".join(
        f"<li>{draw_trend(cell.history)}{escape(f'{cell.name}: {describe_history(cell.history)}')}</li>"
        for cell in with_history(cells)
    )
    return f'<h2>History</h2>\n<ul class="plain">\n{listed}\n</ul>' if listed else ""


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows)
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="wide {kind}">{table}</div>'
