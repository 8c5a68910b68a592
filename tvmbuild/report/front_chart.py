"""The chart of a model's cells in several precisions: latency, accuracy and size, with the recommended one marked."""

from __future__ import annotations

from tvmbuild.package.memory import format_size
from tvmbuild.report.fronts import Front, Point
from tvmbuild.report.html_parts import NOTHING, Html, tag
from tvmbuild.report.latency import format_ms
from tvmbuild.report.plot import Frame, fit_linear

SMALLEST, LARGEST = 4.0, 14.0
"""The radii, in SVG's units, of the smallest and the largest package."""
RING = 4.0
"""The distance of the ring around the recommended cell."""


def draw_front(front: Front) -> Html:
    """Return a dot for each cell of a model: less is better on both axes, and the area of a dot is the package's size.

    Cells that another one beats are pale; a line joins the others.
    """
    points = sorted(front.points, key=lambda each: each.ms)
    frame = Frame(
        fit_linear([0.0, *(each.ms for each in points)], "ms"),
        fit_linear([0.0, *(100 * each.loss.value for each in points)], f"{front.measure}, less is better"),
    )
    largest = max(each.size for each in points)
    best = [(each.ms, 100 * each.loss.value) for each in points if each in front.unbeaten]
    line = frame.draw_steps(best, "rounding") if len(best) > 1 else NOTHING
    dots = [part for each in points for part in _draw_dot(front, frame, each, largest)]
    told = "; ".join(each.describe() for each in points)
    recommended = front.best.cell.target if front.best else "none"
    label = f"{front.model}: time and {front.measure}; recommended: {recommended}; {told}"
    return tag("figure", frame.draw(label, line, *dots), tag("figcaption", _explain(front)), class_="chart")


def _draw_dot(front: Front, frame: Frame, point: Point, largest: int) -> list[Html]:
    x, y = frame.left(point.ms), frame.top(100 * point.loss.value)
    radius = max(SMALLEST, LARGEST * (point.size / largest) ** 0.5)
    class_ = "dot" if point in front.unbeaten else "dot pale"
    title = tag("title", point.describe())
    parts = [tag("circle", title, class_=class_, cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius:.1f}")]
    if point is front.best:
        parts.append(tag("circle", class_="roof", cx=f"{x:.1f}", cy=f"{y:.1f}", r=f"{radius + RING:.1f}"))
    return [*parts, tag("text", point.cell.target, class_="dim", x=f"{x + radius + 5:.1f}", y=f"{y - 6:.1f}")]


def _explain(front: Front) -> str:
    best = front.best
    if best is None:
        return f"{front.model}: no precision keeps the thresholds."
    told = f"{format_ms(best.ms)} ms, {format_size(best.size)}"
    return f"{front.model}: the ring marks the recommended cell, {best.cell.target} ({told}). A dot's area is the size."
