"""Time LSTM and GRU layers on a card, as one kernel and step by step: build packages, then time them on the card.

python benchmarks/recurrences_on_card.py build FOLDER [--target cuda:sm_90] [--layers GRU:60:64:1 …]
python benchmarks/recurrences_on_card.py time FOLDER [--rounds 20] [--repeat 20]

A layer is an operator, its steps, its hidden units and its sequences. Prints the medians, in microseconds, of calls
whose inputs are on the card, the ratio of both ways, timed in turns, and the largest difference of their numbers.
`time` needs TVM's runtime, but not its compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tvmbuild
from tvmbuild.package.archive import write_package
from tvmbuild.package.timing import time_calls, warm_up

INPUTS = 64
LAYERS = (
    *(f"LSTM:60:{hidden}:1" for hidden in (32, 64, 128, 192, 256, 384, 512)),
    *("GRU:60:64:1", "GRU:60:128:1", "GRU:60:256:1", "LSTM:60:64:16", "LSTM:60:128:64", "LSTM:60:128:256"),
)
WAYS = ("kernel", "steps")


def main() -> None:
    """Build, or print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "time"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--layers", nargs="+", default=LAYERS)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=20)
    args = parser.parse_args()
    if args.what == "build":
        args.folder.mkdir(parents=True, exist_ok=True)
        for layer in args.layers:
            build(layer, args.target, args.folder)
        return
    print("| layer | kernel µs | steps µs | kernel / steps | difference |\n|---|---:|---:|---:|---:|")
    for path in sorted(args.folder.glob("*.kernel.tar")):
        print(measure(path, args.rounds, args.repeat), flush=True)


def build(layer: str, target: str, folder: Path) -> None:
    """Write the packages of a layer."""
    from recurrences import make_layer  # noqa: PLC0415 - the card's machine need not have the compiler
    from target_builds import make_target  # noqa: PLC0415

    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415
    from tvmbuild.compiler.importing import importer  # noqa: PLC0415
    from tvmbuild.compiler.kernels.recurrence import form  # noqa: PLC0415

    kind, *sizes = layer.split(":")
    steps, hidden, batch = map(int, sizes)
    model = make_layer(kind, steps, hidden, batch)
    patches: tuple[Any, ...] = (
        mock.patch.object(form, "LARGEST_BLOCK", 1 << 40),
        mock.patch.object(importer, "GPU_RULES", {}),
    )
    for way, patch in zip(WAYS, patches, strict=True):
        with patch:
            package = build_package(
                model.SerializeToString(), make_target(target), options=BuildOptions(layer.replace(":", "_"))
            )
        write_package(folder / f"{layer.replace(':', '_')}.{way}.tar", package)


def measure(path: Path, rounds: int, repeat: int) -> str:
    """Return the row of a layer."""
    name = path.name.partition(".")[0]
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(tvmbuild.load(path.parent / f"{name}.{way}.tar")) for way in WAYS]
        data = {"x": np.random.default_rng(0).uniform(-1, 1, sessions[0].inputs[0].shape).astype(np.float32)}
        one, other = (session.run(data)["y"] for session in sessions)
        calls = [session.bind({"x": session.to_device(data["x"])}) for session in sessions]
        for call in calls:
            warm_up(call, 0.2)
        for _ in range(rounds):
            for way, call in zip(WAYS, calls, strict=True):
                times[way] += time_calls(call, 1, repeat)
    kernel, steps = (1000 * statistics.median(times[way]) for way in WAYS)
    return f"| {name} | {kernel:.1f} | {steps:.1f} | {kernel / steps:.2f} | {abs(one - other).max():.1e} |"


if __name__ == "__main__":
    main()
