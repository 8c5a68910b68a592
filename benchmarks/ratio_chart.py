"""README's picture: of every network that was measured, the package's time over ONNX Runtime's.

python benchmarks/ratio_chart.py [RESULTS.json] [--out FILE.svg]

RESULTS.json, by default benchmarks/results/onnxruntime.json, has the tables of the pages about performance: each group
of networks with its machine, its date and the command that measured it. A group is drawn where it says `drawn`.
The same file gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import log
from pathlib import Path
from typing import Any

from tvmbuild.base.files import write_text
from tvmbuild.benchmarking.estimates import geometric_mean

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/onnxruntime.json"
PICTURE = ROOT / "docs/pictures/ratios.svg"

LOW, HIGH = 0.25, 2.0
"""What the axis shows; a point beyond it stands at its edge, with its number."""
TICKS = (0.25, 0.5, 1.0, 2.0)
COLUMN, GAP, MARGIN = 460, 20, 16
NAME, PLOT, VALUE = 150, 252, 46
ROW, HEAD, SPACE, TOP = 16, 40, 14, 68

STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.head { font-weight: 600; }
.quiet { fill: #59636e; font-size: 11px; }
.number { font-variant-numeric: tabular-nums; }
.sheet { fill: #ffffff; }
.grid { stroke: #d8dee4; }
.one { stroke: #59636e; }
.faster { --colour: #1a7f5a; }
.even { --colour: #818b98; }
.slower { --colour: #c2570c; }
.bar { stroke: var(--colour); stroke-width: 5; stroke-opacity: 0.28; }
.interval { stroke: var(--colour); stroke-width: 1.5; }
.point { fill: var(--colour); }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .quiet { fill: #9198a1; }
  .sheet { fill: #0d1117; }
  .grid { stroke: #2f363d; }
  .one { stroke: #9198a1; }
  .faster { --colour: #3fb98a; }
  .slower { --colour: #f0883e; }
}
"""


@dataclass(frozen=True)
class Network:
    """One network's times."""

    name: str
    ratio: float
    interval: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """Return whether it is faster: only where the whole interval says so."""
        low, high = self.interval or (self.ratio, self.ratio)
        return "faster" if high < 1 else "slower" if low > 1 else "even"


@dataclass(frozen=True)
class Group:
    """Networks that were measured by one command."""

    title: str
    setting: str
    networks: tuple[Network, ...]


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=PICTURE)
    args = parser.parse_args()
    write_text(args.out, draw(read_groups(args.results)))


def read_groups(path: Path) -> list[Group]:
    """Return what is to be drawn, each group's fastest networks first."""
    found: list[Any] = json.loads(path.read_text(encoding="utf-8"))["groups"]
    return [_read_group(group) for group in found if group["drawn"]]


def _read_group(group: Any) -> Group:
    networks = (Network(each["name"], each["ratio"], _pair(each["interval"])) for each in group["networks"])
    threads = "1 thread" if group["threads"] == 1 else f"{group['threads']} threads"
    setting = f"{threads}, {group['chip']}, {group['date']}"
    return Group(group["title"], setting, tuple(sorted(networks, key=lambda network: network.ratio)))


def _pair(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0], interval[1])


def draw(groups: Sequence[Group]) -> str:
    """Return the SVG."""
    columns = _split(groups)
    width, height = 2 * (COLUMN + MARGIN) + GAP, TOP + max(map(_height, columns)) + 12
    counted = sum(len(group.networks) for group in groups)
    title = f"The time of {counted} packages over ONNX Runtime's"
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="sheet" width="{width}" height="{height}" rx="6"/>',
        _text(MARGIN, 28, title, "title"),
        _text(MARGIN, 48, "0.5: half of its time. In turns on the same threads; lines: 95 % intervals.", "quiet"),
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
        yield _text(right - left + 9, 28, text, "quiet")


def _draw_column(groups: Sequence[Group], left: int) -> Iterator[str]:
    top = TOP
    for group in groups:
        bottom = top + HEAD + ROW * len(group.networks)
        mean = geometric_mean([network.ratio for network in group.networks])
        yield _text(left, top + 12, group.title, "head")
        yield _text(left, top + 27, group.setting, "quiet")
        yield _text(left + COLUMN, top + 12, f"geometric mean {mean:.2f}", "head number", "end")
        for tick in TICKS:
            kind = "one" if tick == 1 else "grid"
            yield f'<line class="{kind}" x1="{_x(left, tick)}" x2="{_x(left, tick)}" y1="{top + 34}" y2="{bottom}"/>'
        for index, network in enumerate(group.networks):
            yield from _draw_network(network, left, top + HEAD + ROW * index + 6)
        top = bottom + SPACE
    for tick in TICKS:
        yield _text(_x(left, tick), top, f"{tick:g}", "quiet number", "middle")


def _draw_network(network: Network, left: int, middle: int) -> Iterator[str]:
    yield _text(left, middle + 4, network.name)
    yield f'<g class="{network.verdict}">'
    at, one = _x(left, network.ratio), _x(left, 1)
    yield f'<line class="bar" x1="{one}" x2="{at}" y1="{middle}" y2="{middle}"/>'
    if network.interval:
        low, high = (_x(left, end) for end in network.interval)
        yield f'<line class="interval" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
    yield f'<circle class="point" cx="{at}" cy="{middle}" r="3.5"/></g>'
    beyond = " →" if network.ratio > HIGH else ""
    yield _text(left + COLUMN, middle + 4, f"{network.ratio:.2f}{beyond}", "number", "end")


def _x(left: int, ratio: float) -> float:
    share = log(min(max(ratio, LOW), HIGH) / LOW) / log(HIGH / LOW)
    return round(left + NAME + share * PLOT, 1)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text)}</text>'


if __name__ == "__main__":
    main()
