"""Measure the cost of folding constants: TVM's pass by itself, and with numpy for constants that only change layout.

python benchmarks/lowering.py MODEL.onnx|NETWORK … [--cpu x86-64-v3] [--repeat 3]

Lowers each simplified model both ways in turns, as tune and compile do, in one process, and prints medians and ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import tvm
import tvm_ffi
from network_files import network_file
from rich.console import Console
from rich.table import Table
from tvm import relax

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.compiler import pipeline
from tvmbuild.compiler.importing.importer import import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes import one_hot_to_take
from tvmbuild.compiler.passes.fold_constants import fold_constants


def fold_by_tvm(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Fold as TVM does, compiling a function for each constant."""
    return relax.transform.FoldConstant()(mod)


WAYS = {"TVM": fold_by_tvm, "numpy": fold_constants}


def main() -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=network_file, nargs="+")
    parser.add_argument("--cpu", default="x86-64-v3")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    target = tvm_target(
        "llvm", FrozenMap({"mcpu": args.cpu, "mtriple": "x86_64-linux-gnu", "num-cores": 2}), FrozenMap()
    )
    table = Table("model", "TVM s", "numpy s", "TVM/numpy", title=f"{cpu_name()}, {time.strftime('%Y-%m-%d')}")
    ratios = []
    for model in args.models:
        medians = measure(model, target, args.repeat)
        ratios.append(medians["TVM"] / medians["numpy"])
        table.add_row(
            model.parent.name if model.name == "model.onnx" else model.stem,
            f"{medians['TVM']:.2f}",
            f"{medians['numpy']:.2f}",
            f"{ratios[-1]:.1f}",
        )
    table.add_row("geometric mean", "", "", f"{geometric_mean(ratios):.1f}")
    Console(width=100).print(table)
    return 0


def measure(model: Path, target: tvm.target.Target, repeat: int) -> dict[str, float]:
    """Return the median seconds of each way; exit if they make different modules."""
    imported = import_onnx(model)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repeat):
        modules = []
        for name, fold in WAYS.items():
            for module in (pipeline, one_hot_to_take):
                vars(module)["fold_constants"] = fold
            start = time.perf_counter()
            modules.append(pipeline.lower(imported, target).mod)
            seconds[name].append(time.perf_counter() - start)
        if not tvm_ffi.structural_equal(*modules, map_free_vars=True):
            sys.exit(f"{model.name}: the two ways make different modules")
    return {name: statistics.median(values) for name, values in seconds.items()}


if __name__ == "__main__":
    sys.exit(main())
