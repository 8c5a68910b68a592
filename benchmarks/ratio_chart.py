"""Draw the pictures of packages' times over ONNX Runtime's: every measured network, and a summary for README.

python benchmarks/ratio_chart.py [RESULTS.json] [--out FOLDER]

RESULTS.json, by default benchmarks/results/onnxruntime.json, has the tables of the pages about performance: each group
of networks with its machine, its date and the command that measured it. A group is drawn if it says `drawn`.
FOLDER, by default docs/pictures, gets ratios.svg, ratios-narrow.svg (the same for a phone) and ratios-summary.svg.
The same file gives the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratio_results import RESULTS, Group, Network, begin, draw_text, read_groups
from ratio_summary import draw_summary

from tvmbuild.base.files import write_text
from tvmbuild.report.plot import Axis

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/pictures"

AXIS = Axis(0.25, 2.0, logarithmic=True, title="")
"""The range of the axis; a point beyond it stands at its edge, with its number."""
TICKS = (0.25, 0.5, 1.0, 2.0)
GAP = 20
ROW, HEAD, SPACE, LINE = 16, 40, 14, 16


@dataclass(frozen=True)
class Sheet:
    """The layout of a picture: columns of groups, each with the parts of its rows."""

    columns: int
    margin: int
    name: int
    plot: int
    value: int
    title: str
    lines: tuple[str, ...]
    """The lines below the title."""
    mean: str
    """The text before a group's geometric mean."""

    @property
    def column(self) -> int:
        """Return the width of one column."""
        return self.name + self.plot + self.value

    @property
    def width(self) -> int:
        """Return the width of the picture."""
        return 2 * self.margin + self.columns * self.column + (self.columns - 1) * GAP

    @property
    def legend(self) -> tuple[int, int]:
        """Return the place of the legend: beside the title if there is room, otherwise below the lines."""
        return (self.width - self.margin - 226, 28) if self.columns > 1 else (self.margin + 4, self.top - 48)

    @property
    def top(self) -> int:
        """Return the y of the first group."""
        return 84 + LINE * len(self.lines)

    def x(self, left: int, ratio: float) -> float:
        """Return the x of the ratio in a column that begins at ``left``."""
        share = AXIS.share(min(max(ratio, AXIS.low), AXIS.high))
        return round(left + self.name + share * self.plot, 1)


WIDE = Sheet(
    columns=2,
    margin=16,
    name=150,
    plot=252,
    value=58,
    title="The time of {} packages over ONNX Runtime's",
    lines=("0.5: half of its time. In turns on the same threads; lines: 95 % intervals.",),
    mean="geometric mean ",
)
NARROW = Sheet(
    columns=1,
    margin=12,
    name=150,
    plot=136,
    value=48,
    title="The time of {} packages",
    lines=(
        "over ONNX Runtime's. 0.5: half of its time. In turns on",
        "the same threads. Bold: geometric means.",
        "Lines: 95 % intervals.",
        "",
    ),
    mean="",
)
"""The layout for the width that a phone of 390 pixels leaves a picture in a page."""


def main() -> None:
    """Draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=PICTURES)
    args = parser.parse_args()
    for name, text in draw_all(args.results).items():
        write_text(args.out / name, text)


def draw_all(results: Path) -> dict[str, str]:
    """Return the pictures, by name."""
    groups = read_groups(results)
    sheets = {"ratios.svg": WIDE, "ratios-narrow.svg": NARROW}
    return {name: draw(groups, sheet) for name, sheet in sheets.items()} | {"ratios-summary.svg": draw_summary(groups)}


def draw(groups: Sequence[Group], sheet: Sheet) -> str:
    """Return the SVG of every network."""
    columns = _split(groups) if sheet.columns == 2 else (groups,)
    lefts = [sheet.margin + at * (sheet.column + GAP) for at in range(sheet.columns)]
    height = sheet.top + max(map(_height, columns)) + 30
    counted = sum(len(group.networks) for group in groups)
    body = [
        *begin(sheet.width, height, f"The time of {counted} packages over ONNX Runtime's"),
        draw_text(sheet.margin, 28, sheet.title.format(counted), "title"),
        *(draw_text(sheet.margin, 48 + LINE * at, line, "quiet") for at, line in enumerate(sheet.lines)),
        *_draw_legend(*sheet.legend),
    ]
    for column, left in zip(columns, lefts, strict=True):
        body += _draw_column(column, left, sheet)
    return "\n".join([*body, "</svg>", ""])


def _split(groups: Sequence[Group]) -> tuple[Sequence[Group], Sequence[Group]]:
    """Split the groups so that the longer column is as short as possible."""
    cut = min(range(1, len(groups)), key=lambda at: max(_height(groups[:at]), _height(groups[at:])))
    return groups[:cut], groups[cut:]


def _height(groups: Sequence[Group]) -> int:
    return sum(HEAD + ROW * len(group.networks) + SPACE for group in groups)


def _draw_legend(left: int, bottom: int) -> Iterator[str]:
    for verdict, text, at in (("faster", "faster", 0), ("even", "no difference", 66), ("slower", "slower", 172)):
        yield f'<circle class="point {verdict}" cx="{left + at}" cy="{bottom - 4}" r="4"/>'
        yield draw_text(left + at + 9, bottom, text, "quiet")


def _draw_column(groups: Sequence[Group], left: int, sheet: Sheet) -> Iterator[str]:
    yield from _draw_axis(left, sheet, sheet.top - 28)
    top = sheet.top
    for group in groups:
        bottom = top + HEAD + ROW * len(group.networks)
        yield draw_text(left, top + 12, group.title, "head")
        yield draw_text(left, top + 27, group.setting, "quiet")
        yield draw_text(left + sheet.column, top + 12, f"{sheet.mean}{group.mean:.2f}", "head number", "end")
        for tick in TICKS:
            kind, at = "one" if tick == 1 else "grid", sheet.x(left, tick)
            yield f'<line class="{kind}" x1="{at}" x2="{at}" y1="{top + 34}" y2="{bottom}"/>'
        for index, network in enumerate(group.networks):
            yield from _draw_network(network, left, top + HEAD + ROW * index + 6, sheet)
        top = bottom + SPACE
    yield from _draw_axis(left, sheet, top + 16, above=False)


def _draw_axis(left: int, sheet: Sheet, words: int, *, above: bool = True) -> Iterator[str]:
    """Yield the words for both sides of 1, and the ticks' numbers below the axis, or above."""
    numbers = words + 14 if above else words - 16
    yield draw_text(sheet.x(left, 1) - 6, words, "← package is faster", "side faster", "end")
    yield draw_text(sheet.x(left, 1) + 6, words, "slower →", "side slower")
    for tick in TICKS:
        yield draw_text(sheet.x(left, tick), numbers, f"{tick:g}", "quiet number", "middle")


def _draw_network(network: Network, left: int, middle: int, sheet: Sheet) -> Iterator[str]:
    yield draw_text(left, middle + 4, network.name)
    yield f'<g class="{network.verdict}">'
    at, one = sheet.x(left, network.ratio), sheet.x(left, 1)
    yield f'<line class="bar" x1="{one}" x2="{at}" y1="{middle}" y2="{middle}"/>'
    if network.interval:
        low, high = (sheet.x(left, end) for end in network.interval)
        yield f'<line class="interval" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    yield f'<circle class="point" cx="{at}" cy="{middle}" r="3.5"/></g>'
    beyond = " →" if network.ratio > AXIS.high else ""
    yield draw_text(left + sheet.column, middle + 4, f"{network.ratio:.2f}{beyond}", "number", "end")


if __name__ == "__main__":
    main()
