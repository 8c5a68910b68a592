"""The table and the JSON of vs_peers.py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.base.wording import count
from tvmbuild.benchmarking.estimates import describe_ratio, geometric_mean, judge
from tvmbuild.benchmarking.results import Result
from tvmbuild.package.profile import Peak
from tvmbuild.report.latency import NAMES, describe_machine, format_ms

PEERS = ("onnxruntime", "openvino")


@dataclass(frozen=True)
class Row:
    """One model on one number of threads; ``problem`` replaces a result and gives the reason."""

    model: str
    threads: int
    result: Result | None = None
    of_peak: float | None = None
    """The share of the time that the operators' limits allow: 1 would be every operator at the roofline."""
    problem: str = ""


def make_table(rows: Sequence[Row], peaks: dict[int, Peak]) -> str:
    """Return the Markdown: a table for each number of threads, geometric means last."""
    parts = [f"{cpu_name()}, {time.strftime('%Y-%m-%d')}. Ratio: TVM's time over the peer's, with its 95 % interval."]
    for threads, peak in peaks.items():
        chosen = [row for row in rows if row.threads == threads]
        parts += ["", f"**{count(threads, 'thread')}**; {_describe_peak(peak)}", ""]
        parts += _rows(chosen)
        parts += ["", *(f"- {row.model}: {text}" for row in chosen for text in _remarks(row))]
        results = [row.result for row in chosen if row.result]
        parts += ["", f"Machine: {describe_machine(results[-1].machine)}."] if results else []
    return "\n".join(parts) + "\n"


def _remarks(row: Row) -> list[str]:
    if row.result is None:
        return [row.problem]
    return [*row.result.warnings, *(f"{each.name}: {each.reason}" for each in row.result.absent)]


def _describe_peak(peak: Peak) -> str:
    return f"peak {peak.gflops:.0f} GFLOP/s ({peak.compute}), {peak.gb_s:.1f} GB/s ({peak.memory})"


def _rows(rows: Sequence[Row]) -> list[str]:
    heads = ["model", "records", "TVM ms"]
    for peer in PEERS:
        heads += [f"{NAMES[peer]} ms", "ratio", "TVM is"]
    means = [_mean(rows, peer) for peer in PEERS]
    counts = dict.fromkeys(str(len(_ratios(rows, peer))) for peer in PEERS)
    last = [f"geometric mean ({' and '.join(counts)} of {len(rows)})", "", ""]
    for mean in means:
        last += ["", "-" if mean is None else f"{mean:.3f}", ""]
    lines = [[*heads, "of peak"], ["---", *["---:"] * 8, "---:"], *(_values(row) for row in rows if row.result)]
    return [f"| {' | '.join(line)} |" for line in [*lines, [*last, ""]]]


def _values(row: Row) -> list[str]:
    result = row.result
    if result is None:
        raise TypeError(f"{row.model} has no result")
    values = [row.model, f"{result.product.covered}/{result.product.tasks}", format_ms(result.latency.median.value)]
    rivals = {rival.name: rival for rival in result.rivals}
    for peer in PEERS:
        rival = rivals.get(peer)
        if rival is None:
            values += ["-", "-", "-"]
        else:
            ratio = f"{rival.ratio.value:.3f} [{rival.ratio.low:.3f}, {rival.ratio.high:.3f}]"
            values += [format_ms(rival.latency.median.value), ratio, describe_ratio(rival.ratio)]
    return [*values, "-" if row.of_peak is None else f"{row.of_peak:.0%}"]


def _mean(rows: Sequence[Row], peer: str) -> float | None:
    ratios = _ratios(rows, peer)
    return geometric_mean(ratios) if ratios else None


def _ratios(rows: Sequence[Row], peer: str) -> list[float]:
    return [rival.ratio.value for row in rows if row.result for rival in row.result.rivals if rival.name == peer]


def to_json(rows: Sequence[Row], peaks: dict[int, Peak]) -> dict[str, object]:
    """Return all results as JSON values."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "peaks": {str(threads): peak.to_json() for threads, peak in peaks.items()},
        "geometric_means": {
            str(threads): {peer: _mean([row for row in rows if row.threads == threads], peer) for peer in PEERS}
            for threads in peaks
        },
        "rows": [
            {
                "model": row.model,
                "threads": row.threads,
                "of_peak": row.of_peak,
                "problem": row.problem,
                "result": row.result and row.result.to_json(),
                "verdicts": {rival.name: judge(rival.ratio) for rival in row.result.rivals} if row.result else {},
            }
            for row in rows
        ],
    }
