"""Time float32 packages in NHWC against NCHW on a GPU, every schedule by rule: latency on the device, in turns.

python benchmarks/layouts_on_card.py build FOLDER MODEL.onnx … [--target cuda:sm_90 | vulkan:nvidia-rtx]
python benchmarks/layouts_on_card.py time FOLDER [--rounds 20]

The first command compiles each model in both layouts, and needs no GPU. The second compares both packages' numbers,
times them in turns with inputs and outputs on the device, and needs TVM's runtime only.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from turns import time_in_turns

import tvmbuild
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.package.inputs import make_inputs
from tvmbuild.preparing.compare import find_error

LAYOUTS = ("NCHW", "NHWC")
CALLS = 10


def main() -> None:
    """Build the packages, or time them and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build")
    build.add_argument("folder", type=Path)
    build.add_argument("models", type=Path, nargs="+")
    build.add_argument("--target", default="cuda:sm_90")
    build.set_defaults(run=build_packages)
    timed = commands.add_parser("time")
    timed.add_argument("folder", type=Path)
    timed.add_argument("--rounds", type=int, default=20)
    timed.set_defaults(run=time_packages)
    args = parser.parse_args()
    args.run(args)


def build_packages(args: argparse.Namespace) -> None:
    """Compile each model in both layouts to ``folder/MODEL-LAYOUT.tar``."""
    from target_builds import make_target  # noqa: PLC0415 - these load the compiler

    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415
    from tvmbuild.package.archive import write_package  # noqa: PLC0415
    from tvmbuild.records.schedule import Schedule  # noqa: PLC0415

    target = make_target(args.target)
    args.folder.mkdir(parents=True, exist_ok=True)
    for model in args.models:
        for layout in LAYOUTS:
            package = build_package(model, target, Schedule(layout=layout), BuildOptions(model.stem))
            write_package(args.folder / f"{model.stem}-{layout}.tar", package)


def time_packages(args: argparse.Namespace) -> None:
    """Print the medians in both layouts, their ratio, and the largest difference in parts of the largest output."""
    print("| model | NCHW ms | NHWC ms | NHWC / NCHW | difference |\n|---|---|---|---|---|", flush=True)
    ratios = []
    for first in sorted(args.folder.glob(f"*-{LAYOUTS[0]}.tar")):
        name = first.name.removesuffix(f"-{LAYOUTS[0]}.tar")
        sessions = {layout: tvmbuild.load(args.folder / f"{name}-{layout}.tar") for layout in LAYOUTS}
        inputs = make_inputs(sessions["NCHW"].inputs, "random")
        difference = find_error(sessions["NHWC"].run(inputs), sessions["NCHW"].run(inputs))
        taken = time_in_turns({layout: each.bind(inputs) for layout, each in sessions.items()}, args.rounds, CALLS)
        nchw, nhwc = (float(np.median(taken[layout].ms)) for layout in LAYOUTS)
        ratios.append(nhwc / nchw)
        print(f"| {name} | {nchw:.3f} | {nhwc:.3f} | {ratios[-1]:.2f} | {difference:.0e} |", flush=True)
        for session in sessions.values():
            session.close()
    print(f"| geometric mean | | | {geometric_mean(ratios):.2f} | |")


if __name__ == "__main__":
    main()
