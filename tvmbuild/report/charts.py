"""The charts of latency: a cell's latency beside its baselines', and from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import Estimate, describe_ratio
from tvmbuild.benchmarking.history import Entry
from tvmbuild.benchmarking.regressions import Change, compare_entries
from tvmbuild.benchmarking.results import Result
from tvmbuild.report.facts import format_time
from tvmbuild.report.html_parts import NOTHING, Html, tag
from tvmbuild.report.latency import NAMES, format_ms, format_ratio, format_spread
from tvmbuild.report.plot import WIDTH, Axis, Frame, fit_linear

UNTUNED = "tvm-untuned"
ROW, BAR = 36, 12
"""The heights, in SVG's units, of a bar with its text, and of the bar only."""
ROOM = 0.94
"""The largest share of the chart's width that a bar with its interval may take."""


def draw_latencies(result: Result) -> Html:
    """Return a bar chart of the latencies of the package and its baselines, with whiskers for the intervals.

    Untuned code can be so slow that no other bar would be visible, so its bar is cut and marked.
    """
    names = ["TVM", *(NAMES.get(rival.name, rival.name) for rival in result.rivals)]
    medians = [result.latency.median, *(rival.latency.median for rival in result.rivals)]
    scaled = [result.latency.median, *(rival.latency.median for rival in result.rivals if rival.name != UNTUNED)]
    longest = max(median.high for median in scaled) / ROOM
    says = ["", *(_say(rival.ratio) for rival in result.rivals)]
    bars = [
        part
        for index, (name, median, said) in enumerate(zip(names, medians, says, strict=True))
        for part in _draw_bar(name, median, said, index * ROW, longest)
    ]
    told = "; ".join(f"{name} {format_spread(median)} ms" for name, median in zip(names, medians, strict=True))
    return tag("svg", *bars, viewBox=f"0 0 {WIDTH} {ROW * len(names)}", role="img", aria_label=f"Latency: {told}")


def _say(ratio: Estimate) -> str:
    said = describe_ratio(ratio)
    return said if said == "no difference" else f"TVM is {said}"


def _draw_bar(name: str, median: Estimate, said: str, y: int, longest: float) -> list[Html]:
    width, low, high = (WIDTH * value / longest for value in (median.value, median.low, median.high))
    cut = high > WIDTH
    value = f"{format_ms(median.value)} ms{' (bar cut)' if cut else ''}"
    parts = [
        tag("text", tag("tspan", _shorten(name), class_="strong"), f" {value}", x=0, y=y + 15),
        tag("text", said, class_="dim end", x=WIDTH, y=y + 15) if said else NOTHING,
        tag(
            "rect",
            class_="tvm" if name == "TVM" else "other",
            x=0,
            y=y + 20,
            width=min(float(WIDTH), max(1.0, width)),
            height=BAR,
            rx=2,
        ),
    ]
    if not cut:
        ends = f"M{low:.1f} {y + 22}v8M{high:.1f} {y + 22}v8"
        parts.append(tag("path", class_="whisker", d=f"M{low:.1f} {y + 26}H{high:.1f}{ends}"))
    return parts


def _shorten(name: str, length: int = 22) -> str:
    return name if len(name) <= length else f"…{name[1 - length :]}"


def list_regressions(entries: Sequence[Entry]) -> list[Change]:
    """Return the changes from one run to the next that are regressions, as `Change.is_regression` defines them."""
    changes = (compare_entries(before, after) for before, after in pairwise(entries))
    return [change for change in changes if change.is_regression]


def describe_regression(change: Change) -> str:
    """Return the date of the regression, its size, and the number of changed schedules."""
    against = f", as shares of {NAMES.get(change.against, change.against)}'s time" if change.against else ""
    if change.blamed is None:
        blamed = "whether schedules changed is not known"
    elif change.blamed:
        blamed = f"the schedules of {count(len(change.blamed), 'Task')} changed"
    else:
        blamed = "no schedule changed"
    return f"{format_time(change.after.time)}: {format_ratio(change.ratio)} of the run before{against}; {blamed}"


def draw_history(entries: Sequence[Entry]) -> Html:
    """Return a line chart of the runs' medians, with a band for their intervals and a mark for each regression."""
    medians = [entry.result.latency.median for entry in entries]
    x = Axis(-0.5, len(entries) - 0.5, logarithmic=False, title="")
    frame = Frame(x, fit_linear((end for each in medians for end in (each.low, each.high)), "ms"))
    upper = [(float(index), each.high) for index, each in enumerate(medians)]
    lower = [(float(index), each.low) for index, each in enumerate(medians)]
    line = [(float(index), each.value) for index, each in enumerate(medians)]
    slower = {id(change.after) for change in list_regressions(entries)}
    marks = [_draw_mark(frame, index, each) for index, each in enumerate(entries) if id(each) in slower]
    ends = [(0.0, format_time(entries[0].time)[:10]), (len(entries) - 1.0, format_time(entries[-1].time)[:10])]
    label = f"Latency of {count(len(entries), 'run')}, the oldest on the left; {count(len(marks), 'regression')}"
    return frame.draw(
        label,
        frame.draw_path([*upper, *lower[::-1]], "band", closed=True),
        frame.draw_path(line, "line"),
        *marks,
        ticks=ends,
    )


def _draw_mark(frame: Frame, index: int, entry: Entry) -> Html:
    x, y = frame.left(index), frame.top(entry.result.latency.median.value)
    title = tag("title", f"{format_time(entry.time)}: slower than the run before")
    return tag("path", title, class_="mark", d=f"M{x:.1f} {y - 5:.1f}l5 9h-10z")
