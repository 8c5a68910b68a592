"""Time a model without any record: TVM's naive loop nests, the fallback schedules, ONNX Runtime.

python benchmarks/fallback.py MODEL.onnx|NETWORK … [--cpu x86-64-v3] [--threads 2]

Builds each model twice through the compile stage, checks both packages' numbers against ONNX Runtime's, and times them
and ONNX Runtime in turns, each in its own process, while the idle ones are stopped. Needs an otherwise idle machine.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tuner_contestants import Setting, compile_with
from variants import describe, make_parser, open_settings, time_variants

from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.records.schedule import NO_RECORDS


@dataclass(frozen=True)
class Result:
    """The median latencies in ms, and the seconds that each of the two builds took."""

    model: str
    naive_ms: float
    fallback_ms: float
    onnxruntime_ms: float
    naive_build_s: float
    fallback_build_s: float


def main() -> int:
    """Run the comparison and print it."""
    results = []
    for setting in open_settings(make_parser(__doc__, "x86-64-v3").parse_args()):
        results.append(measure(setting))
        print(results[-1], file=sys.stderr, flush=True)
    show(results, describe(setting))
    return 0


def measure(setting: Setting) -> Result:
    """Build both packages, check their numbers and time them."""
    builders = {"naive": partial(build_package, fallback=False), "fallback": partial(build_package, fallback=True)}
    medians, seconds = time_variants(setting, builders)
    times = medians["naive"], medians["fallback"], medians["ONNX Runtime"]
    return Result(setting.model.stem, *times, seconds["naive"], seconds["fallback"])


def build_package(setting: Setting, package: Path, fallback: bool) -> None:
    """Compile the model without records, with or without the fallback schedules."""
    from tvmbuild.compiler import apply  # noqa: PLC0415 - runs in its own process

    if not fallback:
        vars(apply)["schedule_uncovered"] = _leave
    compile_with(setting, NO_RECORDS, package)


def _leave(mod: Any, _target: Any) -> Any:
    return mod


def show(results: list[Result], title: str) -> None:
    """Print the table, geometric means last."""
    table = Table(
        "model", "naive ms", "fallback ms", "ONNX Runtime ms", "naive/fallback", "fallback/ORT", "build s", title=title
    )
    for result in results:
        table.add_row(
            result.model,
            f"{result.naive_ms:.2f}",
            f"{result.fallback_ms:.2f}",
            f"{result.onnxruntime_ms:.2f}",
            f"{result.naive_ms / result.fallback_ms:.1f}",
            f"{result.fallback_ms / result.onnxruntime_ms:.2f}",
            f"{result.naive_build_s:.0f} → {result.fallback_build_s:.0f}",
        )
    gains = [result.naive_ms / result.fallback_ms for result in results]
    ratios = [result.fallback_ms / result.onnxruntime_ms for result in results]
    means = (f"{geometric_mean(values):.2f}" for values in (gains, ratios))
    table.add_row("geometric mean", "", "", "", *means, "")
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main())
