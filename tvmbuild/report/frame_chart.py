"""The section of a cell about frames: a bar of three parts for each way, their table and remarks."""

from __future__ import annotations

from tvmbuild.benchmarking.frames.results import PARTS, FrameResult, FrameTimes
from tvmbuild.report.frames import COLUMNS, MEANING, TITLE, list_frame_remarks, list_ways
from tvmbuild.report.html_parts import NOTHING, Html, join, make_table, mark_code, tag
from tvmbuild.report.latency import NAMES, format_ms
from tvmbuild.report.plot import WIDTH

ROW, BAR = 36, 12
"""The heights, in SVG's units, of a bar with its text, and of the bar only."""


def draw_frames(name: str, found: FrameResult | None) -> Html:
    """Return the section of the cell ``name``, or nothing if its package takes no frames and makes no results."""
    if found is None:
        return NOTHING
    parts = [tag("h3", TITLE)]
    if found.frame is not None:
        parts.append(tag("p", f"The frame is {found.frame}.", class_="dim"))
    if found.times is not None:
        rows = [(row[1], *row[3:]) for row in list_ways(name, found)]
        table = make_table(f"{TITLE}, in ms", (COLUMNS[1], *COLUMNS[3:]), rows)
        parts += [tag("div", tag("div", _draw_bars(found), _draw_legend()), class_="charts"), table]
        parts.append(tag("p", MEANING, class_="dim-small"))
    parts.append(tag("ul", *(tag("li", mark_code(remark)) for remark in list_frame_remarks(found))))
    return join(parts)


def _draw_bars(found: FrameResult) -> Html:
    """Return the chart: the length of a bar is the sum of its parts, and the text has the time of the whole way."""
    ways: list[tuple[str, FrameTimes]] = [] if found.times is None else [(NAMES["tvm"], found.times)]
    ways += [(NAMES.get(rival.name, rival.name), rival.times) for rival in found.rivals]
    longest = max(sum(times.parts_ms.values()) for _, times in ways)
    bars = [part for index, (name, times) in enumerate(ways) for part in _draw_bar(name, times, index * ROW, longest)]
    told = "; ".join(f"{name} {_describe(times)}" for name, times in ways)
    return tag("svg", *bars, viewBox=f"0 0 {WIDTH} {ROW * len(ways)}", role="img", aria_label=f"{TITLE}: {told}")


def _describe(times: FrameTimes) -> str:
    parts = ", ".join(f"{name} {format_ms(value)}" for name, value in times.parts_ms.items())
    return f"{format_ms(times.latency.median.value)} ms: {parts}"


def _draw_bar(name: str, times: FrameTimes, y: int, longest: float) -> list[Html]:
    said = f" {format_ms(times.latency.median.value)} ms"
    drawn = [tag("text", tag("tspan", name, class_="strong"), said, x=0, y=y + 15)]
    parts = " + ".join(format_ms(value) for value in times.parts_ms.values())
    drawn.append(tag("text", parts, class_="dim end", x=WIDTH, y=y + 15))
    x = 0.0
    for part, value in times.parts_ms.items():
        width = WIDTH * value / longest
        title = tag("title", f"{part}: {format_ms(value)} ms")
        drawn.append(tag("rect", title, class_=f"part-{part}", x=x, y=y + 20, width=max(1.0, width), height=BAR))
        x += width
    return drawn


def _draw_legend() -> Html:
    chips = (tag("li", tag("span", class_=f"chip part-{part}", aria_hidden="true"), f" {part}") for part in PARTS)
    return tag("ul", *chips, class_="legend")
