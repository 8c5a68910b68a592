"""The report as one HTML file, which contains its style and script and loads nothing from elsewhere.

Without scripts all sections can be read, one below the other. The script sorts, filters and compares.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tvmbuild.report.cell_page import draw_cell
from tvmbuild.report.cells import CellReport
from tvmbuild.report.frames import list_unmeasured
from tvmbuild.report.front_chart import draw_front
from tvmbuild.report.fronts import list_fronts
from tvmbuild.report.grid import draw_grid, draw_legend
from tvmbuild.report.html_parts import NOTHING, Html, join, make_list, make_table, tag
from tvmbuild.report.kept import COLUMNS as KEPT_COLUMNS
from tvmbuild.report.kept import MEANING as MEANING_OF_KEPT
from tvmbuild.report.kept import TITLE as KEPT
from tvmbuild.report.kept import list_kept
from tvmbuild.report.latency import INTERVALS, list_absent, list_doubts, list_machines, name_baseline
from tvmbuild.report.limits import choose_limits
from tvmbuild.report.matrix import SIGNS, Matrix, arrange, describe_face
from tvmbuild.report.precisions import COLUMNS as PRECISION_COLUMNS
from tvmbuild.report.precisions import MEANING, list_precisions
from tvmbuild.report.precisions import TITLE as PRECISIONS
from tvmbuild.report.text import failures, summarize_cells, unavailable

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("pages.js", "keys.js", "order.js", "compare.js", "start.js")
"""The files of the page's script, which are joined in this order into one function."""
TITLE = "tvmbuild report"


def write_html(cells: Sequence[CellReport], stamp: str | None = None) -> str:
    """Return the whole report in HTML. Every text from outside is escaped.

    If ``stamp`` is not None, the page is for a server. It asks the server from time to time whether the stamp has
    changed.
    """
    style, *scripts = ((_PAGE / name).read_text(encoding="utf-8") for name in ("report.css", *_SCRIPTS))
    script = Html(f'"use strict";\n(() => {{\n{"".join(scripts)}}})();\n')
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_list_allowed(script, served=stamp is not None)),
        *([tag("meta", name="tvmbuild-stamp", content=stamp)] if stamp is not None else []),
        tag("title", TITLE),
        tag("style", Html(style)),
    ]
    body = tag("body", *_list_body(cells), tag("script", script))
    return f'<!doctype html>\n<html lang="en">\n{tag("head", join(head, chr(10)))}\n{body}\n</html>\n'


def _list_allowed(script: str, *, served: bool) -> str:
    """Return the Content-Security-Policy, whatever names the page may show.

    It allows only this script and, if the page is served, only requests to the page's own server.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    asks = "; connect-src 'self'" if served else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'{asks}"


def _list_body(cells: Sequence[CellReport]) -> Iterator[Html]:
    matrix = arrange(cells)
    yield tag("a", "Skip to the matrix", href="#matrix", class_="skip")
    said = tag("p", f"{summarize_cells(cells)}.")
    yield tag("header", tag("h1", TITLE), said, tag("nav", id="nav", hidden=True), tag("p", id="live", role="status"))
    overview = [
        _draw_controls(matrix),
        draw_grid(matrix),
        draw_legend(matrix, name_baseline(cells)),
        make_list("Failed", failures(cells)),
        make_list("Not built or not run here", [f"{subject}: {reason}" for subject, reason in unavailable(cells)]),
        _draw_precisions(cells),
        make_list("Measured on", list_machines(cells)),
        make_list("Warnings: doubtful latencies", list_doubts(cells)),
        make_list("Baselines not measured", list_absent(cells)),
        make_list("Frames and results not measured", list_unmeasured(cells)),
        tag("p", INTERVALS, class_="dim-small") if any(cell.rival for cell in cells) else NOTHING,
    ]
    limits = choose_limits(len(cells))
    sections = [draw_cell(cell, limits) for cell in cells]
    pages = [tag("div", join(overview, "\n"), id="overview"), _draw_comparison(), *sections]
    yield tag("main", join(pages, "\n"))


def _draw_controls(matrix: Matrix) -> Html:
    """Return the form for filter and order, which stays hidden without JavaScript."""
    if not matrix.cells:
        return NOTHING
    found = {describe_face(cell).kind for cell in matrix.cells.values()}
    states = [tag("option", "all states", value="")]
    states += [tag("option", f"{sign} {says}", value=kind) for kind, (sign, says) in SIGNS.items() if kind in found]
    orders = ("as in the files", "name", "slowest first", "ratio, worst first", "fewest records first", "state")
    sorts = [tag("option", text, value=str(index)) for index, text in enumerate(orders)]
    keys = [tag("kbd", "/"), " filter, ", tag("kbd", "arrows"), " move, ", tag("kbd", "Enter"), " opens, "]
    keys += [tag("kbd", "c"), " compares, ", tag("kbd", "Esc"), " goes back"]
    return tag(
        "form",
        tag("label", "Filter by model, target", tag("input", type="search", id="filter", autocomplete="off")),
        tag("label", "State", tag("select", *states, id="state")),
        tag("label", "Order of models", tag("select", *sorts, id="order")),
        tag("span", id="shown", role="status", class_="dim"),
        tag("span", *keys, class_="keys dim-small"),
        id="controls",
        hidden=True,
    )


def _draw_comparison() -> Html:
    """Return the empty comparison of two cells or runs, which the script fills."""
    names = enumerate(("First", "Second"))
    sides = [tag("label", name, tag("select", id=f"side{index}")) for index, name in names]
    return tag(
        "section",
        tag("h2", "Compare two cells or two runs", tabindex="-1"),
        tag("form", *sides, tag("button", "Swap", type="button", id="swap")),
        tag("div", id="sides", class_="wide", aria_live="polite"),
        id="compare",
        class_="page",
        hidden=True,
    )


def _draw_precisions(cells: Sequence[CellReport]) -> Html:
    rows = list_precisions(cells)
    if not rows:
        return NOTHING
    table = make_table(PRECISIONS, PRECISION_COLUMNS, rows, words=3)
    fronts = list_fronts(cells)
    charts = tag("div", *map(draw_front, fronts), class_="charts")
    told = [tag("p", each.describe()) for each in fronts]
    kept = _draw_kept(cells)
    return join([tag("h2", PRECISIONS), table, charts, *told, tag("p", MEANING, class_="dim-small"), kept], "\n")


def _draw_kept(cells: Sequence[CellReport]) -> Html:
    rows = list_kept(cells)
    if not rows:
        return NOTHING
    table = make_table(KEPT, KEPT_COLUMNS, rows, words=3)
    return join([tag("h2", KEPT), table, tag("p", MEANING_OF_KEPT, class_="dim-small")], "\n")
