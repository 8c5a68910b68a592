"""report — build/report.md, build/report.html and the terminal's table, from the files on disk alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmbuild.base.files import write_text
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep
from tvmbuild.package.metadata import SLOW
from tvmbuild.report.cells import collect_cells
from tvmbuild.report.html_page import write_html
from tvmbuild.report.latency import list_absent, list_doubts, name_baseline
from tvmbuild.report.precisions import describe_precisions
from tvmbuild.report.text import cell_values, count_uncovered, summarize_cells, unavailable, write_markdown

if TYPE_CHECKING:
    from rich.table import Table

_SHORT = {"ONNX Runtime": "ORT", "OpenVINO": "OV", "TVM untuned": "untuned", "baseline": "base"}
_STYLES = {"ok": "green", "failed": "red", "unavailable": "yellow", "built": "cyan", "not built": "dim"}


def write_report(root: Path, steps: Sequence[AnyStep]) -> None:
    """Write both reports of the plan's ``steps`` below ``root``; a file that would not change is left alone."""
    layout = Layout(root)
    cells = collect_cells(root, steps)
    _write_changed(layout.report_markdown, write_markdown(cells))
    _write_changed(layout.report_html, write_html(cells))


def render_table(root: Path, steps: Sequence[AnyStep]) -> Table:
    """Return the matrix for the terminal; below it, why cells are not `ok`."""
    from rich import box  # noqa: PLC0415 - slow to import, and not needed to write the files
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = collect_cells(root, steps)
    # The first of report_text's columns: the rest would not fit 80 columns.
    baseline = f"{_SHORT[name_baseline(cells)]} ms"
    heads = ("model", "target", "status", "tasks", "TVM ms", baseline, "ratio", "error", "size")
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, caption_justify="left")
    for index, name in enumerate(heads):
        longest = max((len(cell_values(cell)[index]) for cell in cells), default=0) if index < 2 else None
        table.add_column(name, justify="right" if index > 2 else "left", no_wrap=True, min_width=longest)
    for cell in cells:
        texts = [Text(value) for value in cell_values(cell)[: len(heads)]]
        texts[2].stylize(_STYLES[cell.status])
        if cell.uncovered:
            texts[3].stylize("yellow")
        table.add_row(*texts)
    reasons = [f"{c.failure.step} failed: {c.failure.message}" for c in cells if c.failure]
    reasons += [f"{subject}: {reason}" for subject, reason in unavailable(cells)]
    reasons += describe_precisions(cells)
    reasons += [*list_doubts(cells), *(f"not measured: {each}" for each in list_absent(cells))]
    reasons += [f"{cell.name}: {note}" for cell in cells for note in cell.notes if note.startswith(SLOW)]
    reasons += count_uncovered(cells)
    reasons += [f"{c.name}: records in quarantine: {len(c.quarantined)}" for c in cells if c.quarantined]
    table.caption = Text("\n".join([summarize_cells(cells), *dict.fromkeys(reasons)]), style="default not italic")
    return table


def _write_changed(path: Path, text: str) -> None:
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    write_text(path, text)
