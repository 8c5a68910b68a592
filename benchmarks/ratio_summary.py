"""Draw README's picture: one row for each group, with its geometric mean, fastest and slowest; it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ratio_results import Group, begin, draw_text

from tvmbuild.report.plot import Axis

AXIS = Axis(0.25, 5.0, logarithmic=True, title="")
TICKS = (0.25, 0.5, 1.0, 2.0, 4.0)
WIDTH, MARGIN = 358, 12
"""The width and margin for the room that a phone of 390 pixels leaves a picture in a page."""
TOP, SECTION, ROW, SPACE = 112, 30, 58, 6


def draw_summary(groups: Sequence[Group]) -> str:
    """Return the SVG, one section for each arithmetic."""
    sections = {name: [group for group in groups if group.arithmetic == name] for name in _list_arithmetics(groups)}
    height = TOP + sum(SECTION + ROW * len(section) for section in sections.values()) + SPACE
    counted = sum(len(group.networks) for group in groups)
    title = f"The time of {counted} packages over ONNX Runtime's"
    body = [
        *begin(WIDTH, height, title),
        draw_text(MARGIN, 26, "Time over ONNX Runtime's", "title"),
        draw_text(MARGIN, 44, f"{counted} packages on CPUs; dots: geometric means;", "quiet"),
        draw_text(MARGIN, 59, "bars: from the fastest to the slowest network.", "quiet"),
        draw_text(_x(1) - 7, 84, "← package is faster", "side faster", "end"),
        draw_text(_x(1) + 7, 84, "slower →", "side slower"),
        *(draw_text(_x(tick), 102, f"{tick:g}", "quiet number", "middle") for tick in TICKS),
    ]
    for tick in TICKS:
        kind = "one" if tick == 1 else "grid"
        body.append(f'<line class="{kind}" x1="{_x(tick)}" x2="{_x(tick)}" y1="108" y2="{height - SPACE}"/>')
    top = TOP
    for name, section in sections.items():
        body.append(draw_text(MARGIN, top + 21, name, "section"))
        top += SECTION
        for group in section:
            body += _draw_group(group, top)
            top += ROW
    return "\n".join([*body, "</svg>", ""])


def _list_arithmetics(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(group.arithmetic for group in groups))


def _draw_group(group: Group, top: int) -> Iterator[str]:
    first, last, middle = group.networks[0].ratio, group.networks[-1].ratio, top + 28
    yield draw_text(MARGIN, top + 14, group.title.removeprefix(f"{group.arithmetic}, "), "head over")
    for verdict, low, high in (("faster", first, min(last, 1.0)), ("slower", max(first, 1.0), last)):
        if low < high:
            yield f'<line class="bar {verdict}" x1="{_x(low)}" x2="{_x(high)}" y1="{middle}" y2="{middle}"/>'
    verdict = "faster" if group.mean < 1 else "slower"
    yield f'<circle class="point {verdict}" cx="{_x(group.mean)}" cy="{middle}" r="6"/>'
    yield draw_text(_x(group.mean), top + 49, f"{group.mean:.2f}", "head number over", "middle")
    told = f"{len(group.networks)} networks, {first:.2f} to {last:.2f}"
    yield draw_text(WIDTH - MARGIN, top + 49, told, "quiet number over", "end")


def _x(ratio: float) -> float:
    return round(MARGIN + AXIS.share(ratio) * (WIDTH - 2 * MARGIN), 1)
