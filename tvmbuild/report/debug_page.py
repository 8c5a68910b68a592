"""The page of `tvmbuild debug --all`: the errors of all places along the depth of a model, as a chart and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tvmbuild.debugging.finding import Finding, PlaceError
from tvmbuild.report.html_parts import NOTHING, Html, join, make_table, tag, wrap_name
from tvmbuild.report.plot import Axis, Frame, fit_log

COLUMNS = ("operator", "place", "error", "rounding", "ratio")
MEANING = (
    "Errors are shares of a place's largest value, in a build that returns all places. Rounding is the largest error "
    "of the original if its inputs and weights change by a rounding error."
)
_SMALLEST, _LARGEST = 1e-9, 1e9
"""The ends of the chart: no error is drawn beyond them, also none of 0 or infinity."""
_STYLE = Path(__file__).parent / "page" / "report.css"


def write_debug_page(finding: Finding, lines: Sequence[str]) -> str:
    """Return the page in HTML, one file that loads nothing. ``lines`` are what the command prints."""
    title = f"debug {finding.cell}"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'",
        ),
        tag("title", title),
        tag("style", Html(_STYLE.read_text(encoding="utf-8"))),
    ]
    told = tag("ul", *(tag("li", line.strip()) for line in lines))
    rows = [_list_values(each) for each in finding.places]
    body = [
        tag("header", tag("h1", title)),
        told,
        tag("div", tag("div", draw_depth(finding)), class_="charts") if finding.places else NOTHING,
        tag("p", MEANING, class_="dim-small"),
        make_table(f"Places of {finding.cell}", COLUMNS, rows, words=2),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n{tag("head", join(head, chr(10)))}\n'
        f"{tag('body', tag('main', join(body, chr(10))))}\n</html>\n"
    )


def draw_depth(finding: Finding) -> Html:
    """Return a chart of the errors of all places in the model's order, with a mark at the first wrong one."""
    errors = [_limit(each.error) for each in finding.places]
    rounding = [_limit(each.rounding) for each in finding.places]
    x = Axis(-0.5, len(errors) - 0.5, logarithmic=False, title="places in the model's order")
    frame = Frame(x, fit_log([*errors, *rounding], "error, share of the largest value"))
    dots = [_draw_dot(frame, number, each) for number, each in enumerate(finding.places)]
    return frame.draw(
        f"Errors of {len(errors)} places of {finding.cell}, with those that rounding alone causes",
        frame.draw_path(list(enumerate(rounding)), "line l2"),
        frame.draw_path(list(enumerate(errors)), "line l1"),
        *dots,
        *_draw_mark(frame, finding, errors),
        tag("text", "ours", x=frame.left(len(errors) - 1) - 40, y=frame.top(errors[-1]) - 6),
        tag("text", "rounding", x=frame.left(0) + 4, y=frame.top(rounding[0]) + 16),
        ticks=[(0.0, "0"), (len(errors) - 1.0, str(len(errors) - 1))],
    )


def _draw_dot(frame: Frame, number: int, place: PlaceError) -> Html:
    title = tag("title", f"{place.operator} {place.place}: {place.error:.2g}, {place.ratio:.3g} times rounding")
    return tag("circle", title, class_="dot", cx=frame.left(number), cy=frame.top(_limit(place.error)), r=3)


def _draw_mark(frame: Frame, finding: Finding, errors: Sequence[float]) -> Iterator[Html]:
    """Yield a triangle at the first wrong place."""
    wrong = finding.suspect.place.place if finding.suspect else None
    for number, each in enumerate(finding.places):
        if each.place == wrong:
            left, top = frame.left(number), frame.top(errors[number])
            title = tag("title", f"the first wrong place: {each.operator} {each.place}")
            yield tag("path", title, class_="mark", d=f"M{left:.1f} {top - 6:.1f}l5 -10h-10z")


def _limit(error: float) -> float:
    return min(max(error, _SMALLEST), _LARGEST)


def _list_values(place: PlaceError) -> tuple[str, ...]:
    numbers = (f"{place.error:.2g}", f"{place.rounding:.2g}", f"{place.ratio:.3g}")
    return (place.operator, wrap_name(place.place), *numbers)
