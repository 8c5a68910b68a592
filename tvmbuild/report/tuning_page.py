"""The tuning of a cell in the HTML report: its Tasks' best times over the candidates, with links to record files."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from tvmbuild.base.wording import count
from tvmbuild.records.course import Course
from tvmbuild.report.cells import CellReport
from tvmbuild.report.html_parts import NOTHING, Html, join, make_table, tag, wrap_name
from tvmbuild.report.plot import Axis, Frame, fit_linear
from tvmbuild.report.text import list_uncovered
from tvmbuild.report.tuning import TunedTask

TITLE = "Tuning"
COLUMNS = ("#", "Task", "calls", "best us", "candidates")
DRAWN = 5
"""The largest number of drawn Tasks, because more lines cannot be told apart."""
NO_COURSE = (
    "How the best times came down is not known here: it is kept in build/courses by the clone that searched, and "
    "records hold only the best."
)
TO_THE_ROOT = "../"
"""The path from build/report.html to the project's root."""


def draw_tuning(cell: CellReport) -> Html:
    """Return the chart and the table of the cell's Tasks. A text replaces each part that is not known."""
    tuning = cell.tuning
    lacking = tag("p", list_uncovered(cell), " without a record", class_="dim-small") if cell.uncovered else NOTHING
    if not tuning.tasks:
        told = "Not tuned yet: its Tasks are not known." if cell.tasks is None else "Its tasks.json is not here."
        return join([tag("h3", TITLE), tag("p", told, class_="dim"), lacking])
    courses = [(number, each.course) for number, each in enumerate(tuning.tasks, 1) if each.course][:DRAWN]
    drawn = [(number, course) for number, course in courses if course.points]
    chart = draw_courses(drawn) if drawn else tag("p", NO_COURSE, class_="dim-small")
    rows = [_list_values(number, each) for number, each in enumerate(tuning.tasks, 1)]
    table = make_table(f"Tasks of {cell.name}", COLUMNS, rows, words=2)
    rest = tuning.of - len(tuning.tasks)
    more = tag("p", f"{count(rest, 'more Task')}.", class_="dim-small") if rest else NOTHING
    if not drawn:
        return join([tag("h3", TITLE), chart, table, more, lacking])
    left, right = tag("div", tag("h3", TITLE), chart), tag("div", table, more, lacking)
    return tag("div", left, right, class_="charts")


def draw_courses(courses: Sequence[tuple[int, Course]]) -> Html:
    """Return a chart with a line for each Task: its best time, relative to its first, over the candidates measured.

    ``courses`` are pairs of the Task's number and its course, which has at least one point.
    """
    lines = [(number, _list_shares(course), course) for number, course in courses]
    longest = max(course.measured for _, course in courses)
    x = Axis(0, longest * 1.06 + 1, logarithmic=False, title="candidates measured")
    frame = Frame(x, fit_linear([1.0, *(share for _, points, _ in lines for _, share in points)], "of its first time"))
    parts = []
    for place, (number, points, course) in enumerate(lines, 1):
        parts.append(frame.draw_steps([*points, (course.measured, points[-1][1])], f"line l{place}"))
        end = tag("text", str(number), x=frame.left(course.measured) + 3, y=frame.top(points[-1][1]) + 4)
        parts.append(end)
    told = "; ".join(f"Task {number}: {points[-1][1]:.2f} after {each.measured}" for number, points, each in lines)
    return frame.draw(f"Best time over candidates, as shares of the first: {told}", *parts)


def _list_shares(course: Course) -> list[tuple[int, float]]:
    first = course.points[0][1]
    return [(measured, seconds / first) for measured, seconds in course.points]


def _list_values(number: int, tuned: TunedTask) -> tuple[str, ...]:
    name = wrap_name(tuned.task.name)
    if tuned.record is not None:
        name = tag("a", name, href=TO_THE_ROOT + quote(tuned.record))
    measured = "no record" if tuned.record is None else "its record file is damaged"
    if tuned.device_class:
        measured = f"{tuned.candidates} on {tuned.device_class}"
    return (
        str(number),
        name,
        str(tuned.task.weight),
        "-" if tuned.seconds is None else f"{tuned.seconds * 1e6:.3g}",
        f"{measured}, search not over" if tuned.is_searched else measured,
    )
