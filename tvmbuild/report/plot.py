"""The common parts of the charts in the HTML report: a frame with two axes, and positions in it.

All lengths are in SVG's units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvmbuild.report.html_parts import Html, tag

WIDTH = 420
HEIGHT = 244
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 22, 36
"""The margins around the frame."""


@dataclass(frozen=True)
class Axis:
    """One axis of a chart: its range, its scale (linear or logarithmic) and its title."""

    low: float
    high: float
    logarithmic: bool
    title: str

    def share(self, value: float) -> float:
        """Return the position of the value on the axis: 0 at the low end, 1 at the high end."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def list_ticks(self) -> list[float]:
        """Return a few round values within the axis, for the ticks."""
        if self.logarithmic:
            exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            tens = [10.0**exponent for exponent in exponents if self.low <= 10.0**exponent <= self.high]
            if len(tens) > 2:
                return tens[:: math.ceil(len(tens) / 6)]
            all_ = [digit * 10.0**exponent for exponent in exponents for digit in (1, 2, 5)]
            return [value for value in all_ if self.low <= value <= self.high]
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]


def fit_linear(values: Iterable[float], title: str) -> Axis:
    """Return a linear axis around the values, with room at both ends. It begins at zero if zero is near."""
    listed = list(values)
    low, high = min(listed), max(listed)
    room = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    start = 0.0 if 0 <= low < (high - low) * 0.5 else low - room
    return Axis(start, high + room, logarithmic=False, title=title)


def fit_log(values: Iterable[float], title: str) -> Axis:
    """Return a logarithmic axis around positive values, with room at both ends."""
    listed = list(values)
    return Axis(min(listed) / 1.5, max(listed) * 1.5, logarithmic=True, title=title)


@dataclass(frozen=True)
class Frame:
    """The frame of a chart, which converts values to positions."""

    x: Axis
    y: Axis

    def left(self, value: float) -> float:
        """Return the SVG's x coordinate of a value on the x axis."""
        return LEFT + self.x.share(value) * (WIDTH - LEFT - RIGHT)

    def top(self, value: float) -> float:
        """Return the SVG's y coordinate of a value on the y axis."""
        return HEIGHT - BOTTOM - self.y.share(value) * (HEIGHT - TOP - BOTTOM)

    def draw_path(self, points: Sequence[tuple[float, float]], class_: str, *, closed: bool = False) -> Html:
        """Return a path through the points, which are values on both axes."""
        steps = "L".join(f"{self.left(x):.0f} {self.top(y):.0f}" for x, y in points)
        return tag("path", class_=class_, d=f"M{steps}{'Z' if closed else ''}")

    def draw_steps(self, points: Sequence[tuple[float, float]], class_: str) -> Html:
        """Return a path of steps: it keeps each point's y until the next point's x."""
        (x, y), *rest = points
        steps = "".join(f"H{self.left(x):.0f}V{self.top(y):.0f}" for x, y in rest)
        return tag("path", class_=class_, d=f"M{self.left(x):.0f} {self.top(y):.0f}{steps}")

    def draw(self, label: str, *parts: str, ticks: Sequence[tuple[float, str]] | None = None) -> Html:
        """Return the chart with its axes and parts. ``label`` describes it in words.

        ``ticks``, pairs of a value and a text, replace the round values below the x axis.
        """
        below = [(value, format_tick(value)) for value in self.x.list_ticks()] if ticks is None else ticks
        numbers, heights, lines = [], [], [f"M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"]
        for value, text in below:
            x = min(self.left(value), WIDTH - 34.0) if ticks else self.left(value)
            numbers.append(tag("text", text, x=x, y=HEIGHT - BOTTOM + 15))
        for value in self.y.list_ticks():
            y = self.top(value)
            lines.append(f"M{LEFT} {y:.0f}H{WIDTH - RIGHT}")
            heights.append(tag("text", format_tick(value), x=LEFT - 5, y=y + 4))
        if self.x.title:
            heights.append(tag("text", self.x.title, x=WIDTH - RIGHT, y=HEIGHT - 4))
        return tag(
            "svg",
            tag("path", class_="axis", d="".join(lines)),
            tag("g", *numbers, class_="dim middle"),
            tag("g", *heights, class_="dim end"),
            tag("text", self.y.title, class_="dim", x=LEFT, y=TOP - 9),
            *parts,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=label,
        )


def format_tick(value: float) -> str:
    """Return the value of a tick as a short text."""
    return f"{value:.0f}" if 1000 <= abs(value) < 100_000 else f"{value:.3g}"
