"""The section of one cell in the HTML report: facts, latency, operators, tuning and history.

The section says in words why a part is missing. It shows only the longest operators and the latest runs, so that a page
of hundreds of cells stays small.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmbuild.report.cells import CellReport
from tvmbuild.report.charts import describe_regression, draw_history, draw_latencies, list_regressions
from tvmbuild.report.facts import (
    FRAME_LATENCY,
    RUN_COLUMNS,
    Fact,
    has_frame_times,
    list_facts,
    list_run,
    name_ratio,
)
from tvmbuild.report.frame_chart import draw_frames
from tvmbuild.report.html_parts import NOTHING, Html, cell_id, join, make_table, mark_code, tag, wrap_name
from tvmbuild.report.latency import COLUMNS as LATENCY_COLUMNS
from tvmbuild.report.latency import describe_history, describe_operators_sum, list_latencies
from tvmbuild.report.limits import Limits
from tvmbuild.report.roofline import describe_roof, draw_roofline, list_points
from tvmbuild.report.tuning_page import draw_tuning


def draw_cell(cell: CellReport, limits: Limits) -> Html:
    """Return the section of the cell, with as many operators and runs as the limits allow."""
    head, history = tag("h2", cell.name, tabindex="-1"), _draw_history(cell, limits)
    return tag(
        "section",
        head,
        _draw_failure(cell),
        tag("div", _draw_facts(list_facts(cell)), tag("div", _draw_latency(cell), history), class_="charts"),
        draw_frames(cell.name, cell.checked.frames if cell.checked else None),
        draw_operators(cell, limits.operators),
        draw_tuning(cell),
        _draw_runs(cell, limits.runs),
        _draw_remarks("Doubtful", cell.result.warnings if cell.result else ()),
        _draw_remarks("Not measured", (f"{a.name}: {a.reason}" for a in (cell.result.absent if cell.result else ()))),
        _draw_remarks("Records in quarantine", cell.quarantined),
        _draw_remarks("Notes", cell.notes),
        class_="page cell",
        id=cell_id(cell.name),
    )


def _draw_failure(cell: CellReport) -> Html:
    failure = cell.failure
    if failure is None:
        return NOTHING
    parts: list[str] = [tag("strong", f"{failure.step} failed: ", class_="bad"), mark_code(failure.message)]
    parts += [tag("br"), mark_code(f"Remedy: {failure.hint}")] if failure.hint else []
    parts += [tag("br"), f"Log: {failure.log}"] if failure.log else []
    return tag("p", *parts)


def _draw_facts(facts: Iterable[Fact]) -> Html:
    rows = [
        tag("tr", tag("th", fact.name, scope="row"), tag("td", mark_code(fact.text), **_list_ends(fact)))
        for fact in facts
    ]
    table = tag("table", tag("caption", "What is known"), tag("tbody", join(rows, "\n")), class_="facts")
    return tag("div", table, class_="wide")


def _list_ends(fact: Fact) -> dict[str, str]:
    """Return an attribute with the fact's value, low and high end, or none without an estimate.

    The page's comparison computes a ratio from it.
    """
    if fact.estimate is None:
        return {}
    ends = (fact.estimate.value, fact.estimate.low, fact.estimate.high)
    return {"data_ends": " ".join(f"{end:.5g}" for end in ends)}


def _draw_latency(cell: CellReport) -> Html:
    if cell.result is None:
        return NOTHING
    sizes = make_table("Latency at each size", LATENCY_COLUMNS, list_latencies([cell]), words=2)
    return join([tag("h3", "Latency"), draw_latencies(cell.result), sizes if cell.result.sizes else NOTHING])


def _draw_history(cell: CellReport, limits: Limits) -> Html:
    if len(cell.history) < 2:
        if cell.result is None:
            return NOTHING
        told = "No earlier run on this machine, with as many threads and this target: nothing to compare with yet."
        return join([tag("h3", "History"), tag("p", told, class_="dim")])
    drawn = cell.history[-limits.drawn_runs :]
    changes = list_regressions(drawn)
    told = tag("p", f"{describe_history(cell.history)}.", class_="dim")
    slower = [tag("li", tag("span", "▲ slower ", class_="bad"), describe_regression(each)) for each in changes]
    listed = tag("ul", *slower[-5:]) if slower else tag("p", "No regression among them.", class_="dim")
    return join([tag("h3", "History"), draw_history(drawn), told, listed])


def _draw_runs(cell: CellReport, limit: int) -> Html:
    if len(cell.history) < 2:
        return NOTHING
    baselines = tuple(dict.fromkeys(rival.name for entry in cell.history[-limit:] for rival in entry.result.rivals))
    framed = has_frame_times(cell.history[-limit:])
    rows = [list_run(entry, baselines, framed=framed) for entry in reversed(cell.history[-limit:])]
    heads = (*RUN_COLUMNS, *(name_ratio(name) for name in baselines), *([FRAME_LATENCY] if framed else []))
    title = f"The latest {len(rows)} of {len(cell.history)} runs"
    return tag("details", tag("summary", title), make_table(title, heads, rows, "runs"))


def _draw_remarks(title: str, remarks: Iterable[str]) -> Html:
    items = [tag("li", mark_code(remark)) for remark in dict.fromkeys(remarks)]
    return join([tag("h3", title), tag("ul", *items)]) if items else NOTHING


# The time of a cell by operator, as a roofline and as a table.

TITLE = "Operators"
COLUMNS = ("#", "operator", "calls", "us", "share", "GFLOP/s", "FLOP/B", "record")
UNKNOWN = "-"


def draw_operators(cell: CellReport, limit: int) -> Html:
    """Return the roofline and the table of the ``limit`` longest operators, or a text that they were not timed."""
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
