"""Time a model in fp32 and in fp16, scheduled by rule on a CPU, and ONNX Runtime: latencies and errors.

python benchmarks/precision.py MODEL.onnx|NETWORK … [--cpu sapphirerapids] [--threads 2] [--samples 200]

Builds both packages without any record and times them and ONNX Runtime in turns, each in its own
process, while the idle ones are stopped. The errors are those of random inputs, as shares of the output's largest
magnitude. Needs a CPU that computes in fp16, and an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from network_files import network_file
from rich.console import Console
from rich.table import Table
from tuner_contestants import Setting, compile_with, run_in_child, simplify_model, time_loads

from tvmbuild.base.attributes import Precision
from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.base.specs import Tolerance
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.reference import read_reference
from tvmbuild.records.schedule import NO_RECORDS

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")


def main() -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=network_file, nargs="+")
    parser.add_argument("--cpu", default="sapphirerapids")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=200)
    args = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    title = f"{args.cpu}, {args.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}"
    heads = ("model", "fp32 ms", "fp16 ms", "ONNX Runtime ms", "fp16/fp32", "fp16 error", "fp32 MB", "fp16 MB")
    table = Table(*heads, title=title)
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            table.add_row(*measure(Setting(model.absolute(), args.cpu, args.threads, 0, Path(folder)), args.samples))
    Console(width=120).print(table)
    return 0


def measure(setting: Setting, samples: int) -> tuple[str, ...]:
    """Build both packages and return the table's row."""
    run_in_child(simplify_model, setting)
    reference = setting.folder / "reference.npz"
    packages = {precision: setting.folder / f"{precision}.tar" for precision in PRECISIONS}
    for precision, package in packages.items():
        run_in_child(compile_with, setting, NO_RECORDS, package, precision)
    loads = {str(name): Load("tvm", package, reference, setting.threads) for name, package in packages.items()}
    with start_worker(loads["fp16"]) as worker:
        want = read_reference(reference).outputs
        error = compare(worker.outputs(), want, Tolerance()).max_abs_error / max(abs(v).max() for v in want.values())
    onnxruntime = Load("onnxruntime", setting.folder / "model.onnx", reference, setting.threads)
    medians = time_loads({**loads, "onnxruntime": onnxruntime}, samples)
    ratio = medians["fp16"] / medians["fp32"]
    times = (f"{medians[name]:.2f}" for name in ("fp32", "fp16", "onnxruntime"))
    sizes = (f"{packages[name].stat().st_size / 1e6:.1f}" for name in PRECISIONS)
    return (setting.model.stem, *times, f"{ratio:.2f}", f"{error:.2%}", *sizes)


if __name__ == "__main__":
    sys.exit(main())
