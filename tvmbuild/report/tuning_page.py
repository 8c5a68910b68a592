"""How a cell was tuned."""

from __future__ import annotations

from tvmbuild.report.cells import CellReport
from tvmbuild.report.html_parts import NOTHING, Html, join, tag
from tvmbuild.report.text import list_uncovered


def draw_tuning(cell: CellReport) -> Html:
    """Return it."""
    if not cell.uncovered:
        return NOTHING
    return join([tag("h3", "Tuning"), tag("p", list_uncovered(cell))])
