"""Time float32 packages in NHWC against NCHW on a GPU, every schedule by rule: latency on the device, in turns.

python benchmarks/layouts_on_card.py build FOLDER MODEL.onnx … [--arch sm_90 | --family nvidia-rtx]
python benchmarks/layouts_on_card.py time FOLDER [--rounds 60]

The first command compiles each model in both layouts, for CUDA or for Vulkan, and needs no GPU. The second checks that
both packages of a model give the same numbers, times them in turns with inputs and outputs on the device, and needs
TVM's runtime only.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import tvmbuild
from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.metadata import PackageTarget

LAYOUTS = ("NCHW", "NHWC")
HOST: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
LIMITS: dict[str, AttributeValue] = {
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}


def main() -> None:
    """Build the packages, or time them and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build")
    build.add_argument("folder", type=Path)
    build.add_argument("models", type=Path, nargs="+")
    build.add_argument("--arch", default="sm_90")
    build.add_argument("--family")
    build.set_defaults(run=build_packages)
    timed = commands.add_parser("time")
    timed.add_argument("folder", type=Path)
    timed.add_argument("--rounds", type=int, default=60)
    timed.set_defaults(run=time_packages)
    args = parser.parse_args()
    args.run(args)


def build_packages(args: argparse.Namespace) -> None:
    """Compile each model in both layouts to ``folder/MODEL-LAYOUT.tar``."""
    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415 - it loads the compiler
    from tvmbuild.package.archive import write_package  # noqa: PLC0415
    from tvmbuild.records.schedule import Schedule  # noqa: PLC0415

    target = make_target(args.arch, args.family)
    args.folder.mkdir(parents=True, exist_ok=True)
    for model in args.models:
        for layout in LAYOUTS:
            package = build_package(model, target, Schedule(layout=layout), BuildOptions(model.stem))
            write_package(args.folder / f"{model.stem}-{layout}.tar", package)


def make_target(arch: str, family: str | None) -> PackageTarget:
    """Return the target of a CUDA architecture, or of a family of Vulkan's GPUs."""
    from tvmbuild.targets.vulkan_families import FAMILIES  # noqa: PLC0415

    if family is None:
        return PackageTarget("card", "cuda", FrozenMap({"arch": arch, **LIMITS}), HOST)
    return PackageTarget("card", "vulkan", FrozenMap(sorted(FAMILIES[family].items())), HOST)


def time_packages(args: argparse.Namespace) -> None:
    """Print the medians in both layouts, their ratio, and the largest difference of the outputs."""
    print("| model | NCHW ms | NHWC ms | NHWC / NCHW | difference |\n|---|---|---|---|---|", flush=True)
    ratios = []
    for first in sorted(args.folder.glob(f"*-{LAYOUTS[0]}.tar")):
        name = first.name.removesuffix(f"-{LAYOUTS[0]}.tar")
        medians, difference = compare([args.folder / f"{name}-{layout}.tar" for layout in LAYOUTS], args.rounds)
        ratios.append(medians[1] / medians[0])
        print(f"| {name} | {medians[0]:.3f} | {medians[1]:.3f} | {ratios[-1]:.2f} | {difference:.0e} |", flush=True)
    print(f"| geometric mean | | | {np.exp(np.mean(np.log(ratios))):.2f} | |")


def compare(packages: list[Path], rounds: int) -> tuple[list[float], float]:
    """Return the packages' median milliseconds, and the largest difference in parts of the largest output."""
    sessions = [tvmbuild.load(each) for each in packages]
    random = np.random.default_rng(0)
    inputs = {each.name: random.uniform(0, 1, each.shape).astype(each.dtype) for each in sessions[0].inputs}
    first, second = (session.run(inputs) for session in sessions)
    difference = max(float(np.abs(second[key] - first[key]).max() / np.abs(first[key]).max()) for key in first)
    calls = [session.bind(inputs) for session in sessions]
    samples: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 10):
        for call, taken in zip(calls, samples, strict=True):
            begin = time.perf_counter()
            for _ in range(3):
                call()
            if turn >= 10:  # the first calls warm up
                taken.append((time.perf_counter() - begin) / 3 * 1e3)
    for session in sessions:
        session.close()
    return [float(np.median(each)) for each in samples], difference


if __name__ == "__main__":
    main()
