"""The report's pictures, as SVG inside the page: latency bars with their intervals, and how latency changed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tvmbuild.benchmarking.estimates import Estimate, describe_ratio
from tvmbuild.benchmarking.history import Entry
from tvmbuild.benchmarking.results import Result
from tvmbuild.report.cells import CellReport
from tvmbuild.report.latency import NAMES, format_ms, format_spread

STYLE = """
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: currentColor; } svg .dim { fill: var(--dim); }
.tvm { fill: var(--tvm); } .other { fill: var(--other); }
.whisker { stroke: currentColor; stroke-width: 1.5; fill: none; }
.cut { stroke: Canvas; stroke-width: 2.5; fill: none; }
.trend { width: 180px; height: 30px; vertical-align: middle; margin-right: .6rem; }
.trend path { stroke: var(--tvm); stroke-width: 1.5; fill: none; }
.trend .band { fill: var(--tvm); stroke: none; opacity: .2; }
"""
UNTUNED = "tvm-untuned"
LABEL, BAR, VALUE = 190, 420, 290
ROW, GAP, HEAD = 18, 10, 26
TREND_WIDTH, TREND_HEIGHT, TREND_EDGE = 180, 30, 3


def draw_latencies(cells: Sequence[CellReport]) -> str:
    """Return the bar chart: each package and its baselines, every model on its own scale; empty without results."""
    groups: dict[str, list[CellReport]] = {}
    for cell in cells:
        if cell.result is not None:
            groups.setdefault(cell.model, []).append(cell)
    parts: list[str] = []
    y = 0
    for model, members in groups.items():
        parts.append(f'<text x="0" y="{y + 17}" font-weight="600">{escape(model)}</text>')
        y += HEAD
        results = [cell.result for cell in members if cell.result]
        longest = max(bar.high for result in results for bar in _list_scaled(result))
        for cell, result in zip(members, results, strict=True):
            parts.append(_draw_cell(cell, result, y, longest))
            y += ROW * (1 + len(result.rivals)) + GAP
    if not parts:
        return ""
    width = LABEL + BAR + VALUE
    return (
        "<h2>Latency, ms (shorter is faster; each model has its own scale, bars beyond it are cut)</h2>\n"
        f'<svg viewBox="0 0 {width} {y}" role="img" aria-label="Latency of each cell beside its baselines">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _list_medians(result: Result) -> list[Estimate]:
    return [result.latency.median, *(rival.latency.median for rival in result.rivals)]


def _list_scaled(result: Result) -> list[Estimate]:
    """Return the medians that the scale must hold: untuned code can be so slow that nothing else would be seen."""
    return [result.latency.median, *(rival.latency.median for rival in result.rivals if rival.name != UNTUNED)]


def _draw_cell(cell: CellReport, result: Result, y: int, longest: float) -> str:
    names = ["TVM", *(NAMES.get(rival.name, rival.name) for rival in result.rivals)]
    says = ["", *(f"TVM is {describe_ratio(rival.ratio)}" for rival in result.rivals)]
    says = [text.replace("TVM is no difference", "no difference") for text in says]
    parts = [f'<text x="0" y="{y + 12}" font-weight="600" class="dim">{escape(cell.target)}</text>']
    for index, (name, median, said) in enumerate(zip(names, _list_medians(result), says, strict=True)):
        parts.append(_draw_bar(name, median, said, y + index * ROW, longest))
    return "\n".join(parts)


def _draw_bar(name: str, median: Estimate, said: str, y: int, longest: float) -> str:
    width, low, high = (max(1.0, BAR * value / longest) for value in (median.value, median.low, median.high))
    kind = "tvm" if name == "TVM" else "other"
    if high > BAR * 1.001:
        width = high = BAR
        mark = f'<path class="cut" d="M{LABEL + BAR - 16} {y + 16}l6 -18m4 0l-6 18"/>'
    else:
        ends = f"M{LABEL + low:.1f} {y + 3}v8M{LABEL + high:.1f} {y + 3}v8"
        mark = f'<path class="whisker" d="M{LABEL + low:.1f} {y + 7}H{LABEL + high:.1f}{ends}"/>'
    return (
        f'<text x="{LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(_shorten(name))}</text>'
        f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{width:.1f}" height="14" rx="2">'
        f"<title>{escape(f'{name}: {format_spread(median)} ms')}</title></rect>"
        f"{mark}"
        f'<text x="{LABEL + high + 8:.1f}" y="{y + 12}">{format_ms(median.value)}'
        f'<tspan class="dim" dx="8">{escape(said)}</tspan></text>'
    )


def _shorten(name: str, length: int = 18) -> str:
    return name if len(name) <= length else f"…{name[1 - length :]}"


def draw_trend(entries: Sequence[Entry]) -> str:
    """Return a small line of the medians, the oldest on the left, with the band of their intervals."""
    medians = [entry.result.latency.median for entry in entries]
    low, high = min(each.low for each in medians), max(each.high for each in medians)
    step = (TREND_WIDTH - 2 * TREND_EDGE) / max(1, len(medians) - 1)

    def point(index: int, value: float) -> str:
        share = (value - low) / (high - low) if high > low else 0.5
        y = TREND_HEIGHT - TREND_EDGE - share * (TREND_HEIGHT - 2 * TREND_EDGE)
        return f"{TREND_EDGE + index * step:.1f} {y:.1f}"

    line = "L".join(point(index, each.value) for index, each in enumerate(medians))
    upper = [point(index, each.high) for index, each in enumerate(medians)]
    lower = [point(index, each.low) for index, each in enumerate(medians)]
    return (
        f'<svg class="trend" viewBox="0 0 {TREND_WIDTH} {TREND_HEIGHT}" aria-hidden="true">'
        f'<path class="band" d="M{"L".join([*upper, *lower[::-1]])}Z"/><path d="M{line}"/></svg>'
    )
