"""Where a cell's time goes: its operators as a roofline and as a table."""

from __future__ import annotations

from tvmbuild.report.cells import CellReport
from tvmbuild.report.html_parts import NOTHING, Html, join, make_table, mark_code, tag, wrap_name
from tvmbuild.report.latency import describe_operators_sum
from tvmbuild.report.roofline import describe_roof, draw_roofline, list_points

TITLE = "Operators"
COLUMNS = ("#", "operator", "calls", "us", "share", "GFLOP/s", "FLOP/B", "record")
UNKNOWN = "-"


def draw_operators(cell: CellReport, limit: int) -> Html:
    """Return the roofline of the ``limit`` longest with their table, or in words that they were not timed."""
    if cell.result is None:
        return NOTHING
    rows = cell.result.operators
    if not rows:
        told = "Not timed: the device does not profile, or the benchmark is of an older tvmbuild."
        return join([tag("h3", TITLE), tag("p", told, class_="dim")])
    points = list_points(rows[:limit])
    parts = [draw_roofline(points, cell.peak)] if points else []
    on_cpu = cell.built_for is not None and not cell.built_for.on_gpu
    says = describe_roof(cell.peak, on_cpu=on_cpu) if points else "No operator has known operations and bytes to plot."
    left = tag("div", tag("h3", TITLE), *parts, tag("p", mark_code(says), class_="dim-small"))
    return tag("div", left, tag("div", _draw_table(cell, limit)), class_="charts")


def _draw_table(cell: CellReport, limit: int) -> Html:
    operators = cell.result.operators if cell.result else ()
    rows = []
    for number, row in enumerate(operators[:limit], 1):
        rows.append(
            (
                str(number),
                wrap_name(row.name),
                str(row.calls),
                f"{row.us:.3g}" if row.us < 100 else f"{row.us:.0f}",
                f"{row.share:.0%}",
                UNKNOWN if row.gflops is None else f"{row.gflops:.3g}",
                f"{row.flops / row.bytes:.3g}" if row.flops and row.bytes else UNKNOWN,
                UNKNOWN if row.covered is None else "yes" if row.covered else "no",
            )
        )
    rest = operators[limit:]
    lacking = sum(row.share for row in operators if row.covered is False)
    says = [f"{len(rest)} more take {sum(row.share for row in rest):.0%} of the time."] if rest else []
    says += [f"Operators without a record take {lacking:.0%} of the time."] if lacking > 0 else []
    says += [describe_operators_sum(cell)]
    table = make_table(f"Operators of {cell.name}, the longest first", COLUMNS, rows, words=2)
    said = " ".join(says).strip()
    return join([table, tag("p", said, class_="dim-small")]) if said else table
