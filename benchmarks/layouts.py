"""Time convolutions in NHWC against NCHW, every schedule by rule: latency and ratio, in turns.

python benchmarks/layouts.py MODEL.onnx|NETWORK … [--cpu x86-64-v4] [--threads 2]

Compiles each model both ways without any record, checks the numbers, and times both packages and ONNX Runtime in turns,
each in its own process, while the idle ones are stopped. Needs an otherwise idle machine.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from tuner_contestants import Setting, compile_with
from variants import describe, make_parser, open_settings, time_variants

from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.records.schedule import Schedule

LAYOUTS = ("NHWC", "NCHW")


def main() -> int:
    """Run the comparison and print it as a table in Markdown."""
    print("| model | NHWC ms | NCHW ms | NCHW / NHWC | ONNX Runtime ms |\n|---|---|---|---|---|", flush=True)
    ratios = []
    for setting in open_settings(make_parser(__doc__, "x86-64-v4").parse_args()):
        medians, _ = time_variants(setting, {each: partial(build_package, layout=each) for each in LAYOUTS})
        ratios.append(medians["NCHW"] / medians["NHWC"])
        times = [f"{medians[name]:.2f}" for name in (*LAYOUTS, "ONNX Runtime")]
        print(f"| {setting.model.stem} | {times[0]} | {times[1]} | {ratios[-1]:.2f} | {times[2]} |", flush=True)
    print(f"| geometric mean | | | {geometric_mean(ratios):.2f} | |")
    print(f"{describe(setting)}, no records", file=sys.stderr)
    return 0


def build_package(setting: Setting, package: Path, layout: str) -> None:
    """Compile the model without records, its convolutions in that layout."""
    compile_with(setting, Schedule(layout=layout), package)


if __name__ == "__main__":
    sys.exit(main())
