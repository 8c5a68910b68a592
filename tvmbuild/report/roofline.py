"""The roofline of a cell: each operator's speed over its arithmetic intensity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tvmbuild.base.wording import count
from tvmbuild.package.profile import OperatorRow, Peak
from tvmbuild.report.html_parts import Html, tag
from tvmbuild.report.plot import Frame, fit_log

INTENSITY = "FLOP per byte moved at the least"
SPEED = "GFLOP/s"
LEAST_RADIUS, GREATEST_RADIUS = 3.5, 13.0
BESIDE = ((0, -1), (1, 0), (0, 1), (-1, 0), (1, -1), (-1, -1), (1, 1), (-1, 1))
"""The places for a dot's number, as (across, down) from the dot, the best first."""
DIGIT, GAP, HEIGHT = 3.5, 5.0, 10.0
"""Lengths in SVG's units: half of a digit's width, and the least distances of two numbers, across and down."""


class _Place(NamedTuple):
    """The middle of a number or a dot, and half of its width, in SVG's units."""

    x: float
    y: float
    half: float


def list_points(rows: Sequence[OperatorRow]) -> list[tuple[int, OperatorRow]]:
    """Return the operators that can be drawn, each with its number in the table, from 1."""
    return [(number, row) for number, row in enumerate(rows, 1) if row.flops and row.bytes and row.us > 0]


def draw_roofline(points: Sequence[tuple[int, OperatorRow]], peak: Peak | None) -> Html:
    """Return the roofline of at least one point, with the roof if ``peak`` is known.

    The larger a dot, the more of the cell's time its operator takes.
    """
    places = [(row.flops / row.bytes, row.gflops) for _, row in points if row.flops and row.bytes and row.gflops]
    intensities, speeds = [place[0] for place in places], [place[1] for place in places]
    corner = peak.gflops / peak.gb_s if peak else None
    x = fit_log([*intensities, *([corner] if corner else [])], INTENSITY)
    y = fit_log([*speeds, *([peak.gflops] if peak else [])], SPEED)
    frame = Frame(x, y)
    roof = [_draw_roof(frame, peak)] if peak else []
    dots = [_draw_dot(frame, row, *place) for (_, row), place in zip(points, places, strict=True)]
    numbers = _draw_numbers(
        [(number, frame.left(x), frame.top(y)) for (number, _), (x, y) in zip(points, places, strict=True)]
    )
    label = f"Roofline of {count(len(points), 'operator')}; the table below has their numbers"
    return frame.draw(label, *roof, *dots, tag("g", *numbers, class_="middle"))


def _draw_roof(frame: Frame, peak: Peak) -> Html:
    """Return the part of the roof inside the frame: the slope of the memory's rate, and the flat top of the peak."""
    lowest = max(frame.x.low, frame.y.low / peak.gb_s)
    corner = peak.gflops / peak.gb_s
    line = [(lowest, lowest * peak.gb_s), (corner, peak.gflops), (frame.x.high, peak.gflops)]
    return frame.draw_path(line, "roof")


def _draw_dot(frame: Frame, row: OperatorRow, intensity: float, speed: float) -> Html:
    radius = max(LEAST_RADIUS, GREATEST_RADIUS * math.sqrt(row.share))
    title = tag("title", row.name)
    return tag("circle", title, class_="dot", cx=frame.left(intensity), cy=frame.top(speed), r=radius)


def _draw_numbers(dots: Sequence[tuple[int, float, float]]) -> list[Html]:
    """Return each dot's number, at the best free place beside the dot, or at the one farthest from all else."""
    numbers: list[_Place] = []
    for number, x, y in dots:
        half = DIGIT * len(str(number))
        others = [*numbers, *(_Place(left, top, DIGIT) for other, left, top in dots if other != number)]
        places = [_Place(x + across * (half + 8), y + down * 10.5, half) for across, down in BESIDE]
        numbers.append(max(places, key=lambda place: min(1.0, _find_distance(place, others))))
    return [tag("text", str(number), x=at.x, y=at.y + 4) for (number, *_), at in zip(dots, numbers, strict=True)]


def _find_distance(place: _Place, others: Sequence[_Place]) -> float:
    """Return the distance of the place to the nearest of the others. Below 1, the two would touch."""
    distances = (
        max(abs(place.x - each.x) / (place.half + each.half + GAP), abs(place.y - each.y) / HEIGHT) for each in others
    )
    return min(distances, default=1.0)


def describe_roof(peak: Peak | None, *, on_cpu: bool) -> str:
    """Return a description of the roof, or why there is none and how to get it."""
    if peak:
        who = f"on this machine with {peak.threads} threads" if on_cpu else "on this machine's GPU"
        return (
            f"The roof: {peak.gflops:.0f} GFLOP/s ({peak.compute}) and {peak.gb_s:.1f} GB/s ({peak.memory}), measured "
            f"{who}; above the slope a cache served the operator."
        )
    whose, here = ("machine", "this one") if on_cpu else ("GPU", "this machine's")
    return (
        f"No roof: the peaks of the {whose} that timed it were not measured. "
        f"If it is {here}, `tvmbuild report --peaks` measures them, in seconds."
    )
