"""The pictures of packages' times over ONNX Runtime's: every network that was measured, and a summary for README.

python benchmarks/ratio_chart.py [RESULTS.json] [--out FOLDER]

RESULTS.json, by default benchmarks/results/onnxruntime.json, has the tables of the pages about performance: each group
of networks with its machine, its date and the command that measured it. A group is drawn where it says `drawn`.
FOLDER, by default docs/pictures, gets ratios.svg and ratios-summary.svg. The same file gives the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path

from ratio_results import Group, Network, begin, draw_text, read_groups
from ratio_summary import draw_summary

from tvmbuild.base.files import write_text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/onnxruntime.json"
PICTURES = ROOT / "docs/pictures"

LOW, HIGH = 0.25, 2.0
"""What the axis shows; a point beyond it stands at its edge, with its number."""
TICKS = (0.25, 0.5, 1.0, 2.0)
COLUMN, GAP, MARGIN = 460, 20, 16
NAME, PLOT, VALUE = 150, 252, 46
ROW, HEAD, SPACE, TOP = 16, 40, 14, 100


def main() -> None:
    """Draw both pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=PICTURES)
    args = parser.parse_args()
    for name, text in draw_all(args.results).items():
        write_text(args.out / name, text)


def draw_all(results: Path) -> dict[str, str]:
    """Return the pictures' names and what is in them."""
    groups = read_groups(results)
    return {"ratios.svg": draw(groups), "ratios-summary.svg": draw_summary(groups)}


def draw(groups: Sequence[Group]) -> str:
    """Return the SVG of every network."""
    columns = _split(groups)
    width, height = 2 * (COLUMN + MARGIN) + GAP, TOP + max(map(_height, columns)) + 30
    counted = sum(len(group.networks) for group in groups)
    title = f"The time of {counted} packages over ONNX Runtime's"
    body = [
        *begin(width, height, title),
        draw_text(MARGIN, 28, title, "title"),
        draw_text(MARGIN, 48, "0.5: half of its time. In turns on the same threads; lines: 95 % intervals.", "quiet"),
        *_draw_legend(width - MARGIN),
    ]
    for column, left in zip(columns, (MARGIN, MARGIN + COLUMN + GAP), strict=True):
        body += _draw_column(column, left)
    return "\n".join([*body, "</svg>", ""])


def _split(groups: Sequence[Group]) -> tuple[Sequence[Group], Sequence[Group]]:
    """Split where the longer column is shortest."""
    cut = min(range(1, len(groups)), key=lambda at: max(_height(groups[:at]), _height(groups[at:])))
    return groups[:cut], groups[cut:]


def _height(groups: Sequence[Group]) -> int:
    return sum(HEAD + ROW * len(group.networks) + SPACE for group in groups)


def _draw_legend(right: int) -> Iterator[str]:
    for verdict, text, left in (("faster", "faster", 226), ("even", "no difference", 160), ("slower", "slower", 54)):
        yield f'<circle class="point {verdict}" cx="{right - left}" cy="24" r="4"/>'
        yield draw_text(right - left + 9, 28, text, "quiet")


def _draw_column(groups: Sequence[Group], left: int) -> Iterator[str]:
    yield from _draw_axis(left, TOP - 28, TOP - 14)
    top = TOP
    for group in groups:
        bottom = top + HEAD + ROW * len(group.networks)
        yield draw_text(left, top + 12, group.title, "head")
        yield draw_text(left, top + 27, group.setting, "quiet")
        yield draw_text(left + COLUMN, top + 12, f"geometric mean {group.mean:.2f}", "head number", "end")
        for tick in TICKS:
            kind = "one" if tick == 1 else "grid"
            yield f'<line class="{kind}" x1="{_x(left, tick)}" x2="{_x(left, tick)}" y1="{top + 34}" y2="{bottom}"/>'
        for index, network in enumerate(group.networks):
            yield from _draw_network(network, left, top + HEAD + ROW * index + 6)
        top = bottom + SPACE
    yield from _draw_axis(left, top + 16, top)


def _draw_axis(left: int, words: int, numbers: int) -> Iterator[str]:
    """Yield the ticks' numbers, and on which side of 1 which is faster."""
    yield draw_text(_x(left, 1) - 6, words, "← package is faster", "side faster", "end")
    yield draw_text(_x(left, 1) + 6, words, "slower →", "side slower")
    for tick in TICKS:
        yield draw_text(_x(left, tick), numbers, f"{tick:g}", "quiet number", "middle")


def _draw_network(network: Network, left: int, middle: int) -> Iterator[str]:
    yield draw_text(left, middle + 4, network.name)
    yield f'<g class="{network.verdict}">'
    at, one = _x(left, network.ratio), _x(left, 1)
    yield f'<line class="bar" x1="{one}" x2="{at}" y1="{middle}" y2="{middle}"/>'
    if network.interval:
        low, high = (_x(left, end) for end in network.interval)
        yield f'<line class="interval" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    yield f'<circle class="point" cx="{at}" cy="{middle}" r="3.5"/></g>'
    beyond = " →" if network.ratio > HIGH else ""
    yield draw_text(left + COLUMN, middle + 4, f"{network.ratio:.2f}{beyond}", "number", "end")


def _x(left: int, ratio: float) -> float:
    share = log(min(max(ratio, LOW), HIGH) / LOW) / log(HIGH / LOW)
    return round(left + NAME + share * PLOT, 1)


if __name__ == "__main__":
    main()
