"""The report as one HTML file: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tvmbuild.stages.report_data import CellReport
from tvmbuild.stages.report_text import (
    COLUMNS,
    MEMORY,
    cell_values,
    failures,
    format_ms,
    list_uncovered,
    machines,
    summarize_cells,
    unavailable,
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --tvm: #2f6fde; --ort: #9aa3ad; --ok: #1a7f37; --bad: #cf222e;
  --dim: #808890; }
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
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; } .tvm { fill: var(--tvm); } .ort { fill: var(--ort); }
"""
_LABEL, _BAR, _VALUE = 260, 560, 80
_ROW, _HEAD = 40, 26


def write_html(cells: Sequence[CellReport]) -> str:
    """Return the whole report; every text from outside is escaped."""
    body = [
        "<h1>tvmbuild report</h1>",
        f"<p>{escape(summarize_cells(cells))}.</p>",
        _table(cells),
        "<p>The ratio is TVM's median over ONNX Runtime's, measured in turns in one run: below 1 TVM is faster.</p>",
        f"<p>{escape(MEMORY)}</p>",
        _chart(cells),
        _section("Measured on", machines(cells)),
        _section("Failed", failures(cells)),
        _section("Not built or not run here", [f"{subject}: {reason}" for subject, reason in unavailable(cells)]),
        _section(
            "Warnings: Tasks without a record",
            [f"{cell.name}: {list_uncovered(cell)}" for cell in cells if cell.uncovered],
        ),
        _section(
            "Warnings: records in quarantine",
            [f"{cell.name}: {reason}" for cell in cells for reason in cell.quarantined],
        ),
        _section("Notes", dict.fromkeys(f"{cell.name}: {note}" for cell in cells for note in cell.notes)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>tvmbuild report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _table(cells: Sequence[CellReport]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
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


def _chart(cells: Sequence[CellReport]) -> str:
    """Return a bar chart: latency beside ONNX Runtime's, each model on its own scale."""
    groups: dict[str, list[CellReport]] = {}
    for cell in cells:
        if cell.speed is not None:
            groups.setdefault(cell.model, []).append(cell)
    if not groups:
        return ""
    parts: list[str] = []
    y = 0
    for model, members in groups.items():
        parts.append(f'<text x="0" y="{y + 17}" font-weight="600">{escape(model)}</text>')
        y += _HEAD
        longest = max(max(c.speed.tvm_ms, c.speed.onnxruntime_ms) for c in members if c.speed)
        for cell in members:
            parts.append(_bars(cell, y, longest))
            y += _ROW
    width = _LABEL + _BAR + _VALUE
    return (
        "<h2>Latency, ms (shorter is faster; each model has its own scale)</h2>\n"
        '<p><svg viewBox="0 0 250 16" style="width:250px" aria-hidden="true"><rect class="tvm" width="12" height="12"/>'
        '<text x="18" y="11">TVM</text><rect class="ort" x="70" width="12" height="12"/>'
        '<text x="88" y="11">ONNX Runtime</text></svg></p>\n'
        f'<svg viewBox="0 0 {width} {y}" role="img" aria-label="Latency of each cell beside ONNX Runtime">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _bars(cell: CellReport, y: int, longest: float) -> str:
    if cell.speed is None:
        return ""
    parts = [f'<text x="{_LABEL - 10}" y="{y + 20}" text-anchor="end">{escape(cell.target)}</text>']
    values = (("tvm", "TVM", cell.speed.tvm_ms), ("ort", "ONNX Runtime", cell.speed.onnxruntime_ms))
    for index, (kind, name, value) in enumerate(values):
        top = y + 2 + index * 16
        width = max(1.0, _BAR * value / longest) if longest > 0 else 1.0
        shown = format_ms(value)
        parts.append(
            f'<rect class="{kind}" x="{_LABEL}" y="{top}" width="{width:.1f}" height="14" rx="2">'
            f"<title>{escape(f'{cell.name}, {name}: {shown} ms')}</title></rect>"
            f'<text x="{_LABEL + width + 6:.1f}" y="{top + 11}">{shown}</text>'
        )
    return "".join(parts)
