"""The committed times beside ONNX Runtime's: in the form that their pictures need, and as the site's tables."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tvmbuild.benchmarking.estimates import geometric_mean

RESULTS = Path(__file__).resolve().parent / "results" / "onnxruntime.json"
STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.head, .side { font-weight: 600; }
.section { font-size: 14px; font-weight: 600; }
.side { fill: var(--colour); }
.quiet { fill: #59636e; font-size: 11px; }
.number { font-variant-numeric: tabular-nums; }
.sheet { fill: #ffffff; }
.over { stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
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
  .over { stroke: #0d1117; }
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
        """Return `faster` or `slower` only if the whole interval shows it."""
        low, high = self.interval or (self.ratio, self.ratio)
        return "faster" if high < 1 else "slower" if low > 1 else "even"


@dataclass(frozen=True)
class Group:
    """The networks that one command measured."""

    title: str
    arithmetic: str
    setting: str
    networks: tuple[Network, ...]
    """The networks, the fastest first."""

    @property
    def mean(self) -> float:
        """Return the geometric mean of the ratios."""
        return geometric_mean([network.ratio for network in self.networks])


@dataclass(frozen=True)
class Verdicts:
    """README's headline: the packages that were timed, and the measurable differences."""

    packages: int
    judged: int
    """The number of packages with an interval; the verdict needs one."""
    faster: int
    slower: int
    median: float
    """The median ratio of all packages."""


def count_verdicts(path: Path = RESULTS) -> Verdicts:
    """Count each package once: of groups with the same title, which differ in their threads, the first counts."""
    first: dict[str, Any] = {}
    for group in json.loads(path.read_text(encoding="utf-8"))["groups"]:
        first.setdefault(group["title"], group)
    networks = [network for group in first.values() for network in _read_group(group).networks]
    judged = [network for network in networks if network.interval]
    return Verdicts(
        packages=len(networks),
        judged=len(judged),
        faster=sum(network.verdict == "faster" for network in judged),
        slower=sum(network.verdict == "slower" for network in judged),
        median=statistics.median(network.ratio for network in networks),
    )


def read_groups(path: Path) -> list[Group]:
    """Return the groups to draw, each with its fastest networks first."""
    found: list[Any] = json.loads(path.read_text(encoding="utf-8"))["groups"]
    return [_read_group(group) for group in found if group["drawn"]]


def _read_group(group: Any) -> Group:
    networks = (Network(each["name"], each["ratio"], _pair(each["interval"])) for each in group["networks"])
    threads = "1 thread" if group["threads"] == 1 else f"{group['threads']} threads"
    setting = f"{threads}, {group['chip']}, {group['date']}"
    return Group(
        group["title"], group["arithmetic"], setting, tuple(sorted(networks, key=lambda network: network.ratio))
    )


def write_tables(path: Path = RESULTS) -> str:
    """Write a section of Markdown for each group, with all its networks."""
    return "\n".join(_write_table(group) for group in json.loads(path.read_text(encoding="utf-8"))["groups"])


def _write_table(group: Any) -> str:
    threads = "1 thread" if group["threads"] == 1 else f"{group['threads']} threads"
    rows = [
        f"| {each['name']} | {each['ms']} | {each['onnxruntime_ms']} | {each['ratio']:.2f} | {_say_interval(each)} "
        f"| {each.get('over_openvino', '')} |"
        for each in group["networks"]
    ]
    return f"""### {group["title"]}, {threads}

`{group["command"]}`, for {group["cpu"]}, on {group["machine"]}, {group["date"]}; schedules: {group["schedules"]}.

| network | ms | ONNX Runtime, ms | ratio | 95 % interval | over OpenVINO |
|---|---:|---:|---:|---|---:|
{chr(10).join(rows)}
| geometric mean | | | {geometric_mean([each["ratio"] for each in group["networks"]]):.2f} | | |
"""


def _say_interval(network: Any) -> str:
    pair = _pair(network["interval"])
    return f"{pair[0]:.2f} to {pair[1]:.2f}" if pair else ""


def _pair(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0], interval[1])


def draw_text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    """Return SVG text with some of STYLE's classes."""
    attributes = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{escape(text)}</text>'


def begin(width: int, height: int, title: str) -> list[str]:
    """Return the beginning of a picture with that title, which is not drawn."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="sheet" width="{width}" height="{height}" rx="6"/>',
    ]
