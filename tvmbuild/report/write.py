"""The writer of the report: build/report.md and build/report.html, from the files on disk only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvmbuild.base.files import write_text
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep
from tvmbuild.report.cells import CellReport, collect_cells
from tvmbuild.report.html_page import write_html
from tvmbuild.report.text import write_markdown


def write_report(root: Path, steps: Sequence[AnyStep]) -> list[CellReport]:
    """Write the report of the plan's ``steps`` below ``root``, in Markdown and HTML. Return the cells in it."""
    layout = Layout(root)
    cells = collect_cells(root, steps)
    _write_changed(layout.report_markdown, write_markdown(cells))
    _write_changed(layout.report_html, write_html(cells))
    return cells


def _write_changed(path: Path, text: str) -> None:
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    write_text(path, text)
