"""Time convolutions computed directly, by Winograd's algorithms, and by the faster one as measured; ONNX Runtime too.

python benchmarks/winograd.py MODEL.onnx|NETWORK … [--cpu x86-64-v4] [--threads 2] [--samples 200]

No records: every function has its schedule by rule. Builds each model with all its convolutions computed directly, by
F(2 x 2, 3 x 3) and by F(4 x 4, 3 x 3) if possible; times the functions of the three packages one by one, and
builds a fourth with the fastest algorithm of each convolution. Checks the numbers against ONNX Runtime's, and times
the packages and ONNX Runtime in turns, each in its own process, while the idle ones are stopped. Needs an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from network_files import network_file
from rich.console import Console
from rich.table import Table
from tuner_contestants import Setting, compile_with, run_in_child, simplify_model, time_loads

from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.base.specs import Tolerance
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.reference import read_reference
from tvmbuild.records.schedule import Schedule

ALGORITHMS = ("direct", "winograd2", "winograd4")


def main() -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=network_file, nargs="+")
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=200)
    args = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    table = Table(
        "model",
        "what",
        "ms",
        "over ONNX Runtime",
        "largest error",
        "MB",
        title=f"{args.cpu}, {args.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}",
    )
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            show(table, Setting(model.absolute(), args.cpu, args.threads, 0, Path(folder)), args.samples)
    Console(width=120).print(table)
    return 0


def show(table: Table, setting: Setting, samples: int) -> None:
    """Build and time one model's packages, and add a row for each."""
    run_in_child(simplify_model, setting)
    loads = {}
    for name in ALGORITHMS:
        run_in_child(build_package, setting, name)
        loads[name] = load_package(setting, name)
    choose(setting, loads)
    run_in_child(build_package, setting, "chosen")
    loads["chosen"] = load_package(setting, "chosen")
    errors = {name: check(setting, load) for name, load in loads.items()}
    reference = setting.folder / "reference.npz"
    onnxruntime = Load("onnxruntime", setting.folder / "model.onnx", reference, setting.threads)
    medians = time_loads({**loads, "ONNX Runtime": onnxruntime}, samples)
    for name, ms in medians.items():
        error = f"{errors[name]:.1e}" if name in errors else ""
        size = f"{loads[name].model.stat().st_size / 1e6:.1f}" if name in loads else ""
        table.add_row(setting.model.stem, name, f"{ms:.2f}", f"{ms / medians['ONNX Runtime']:.2f}", error, size)


def load_package(setting: Setting, name: str) -> Load:
    """Return the load for a worker."""
    return Load("tvm", setting.folder / f"{name}.tar", setting.folder / "reference.npz", setting.threads)


def build_package(setting: Setting, algorithm: str) -> None:
    """Compile with one algorithm for all convolutions, or with the algorithms in `chosen.json`."""
    from tvmbuild.compiler.convolution_times import find_tasks  # noqa: PLC0415
    from tvmbuild.compiler.importing.importer import import_onnx  # noqa: PLC0415 - runs in its own process
    from tvmbuild.compiler.machine.target import tvm_target  # noqa: PLC0415
    from tvmbuild.compiler.pipeline import lower  # noqa: PLC0415

    chosen = setting.folder / "chosen.json"
    if algorithm == "chosen":
        algorithms = json.loads(chosen.read_text())
    else:
        target = tvm_target("llvm", setting.attributes, FrozenMap())
        imported = import_onnx(setting.folder / "model.onnx")
        signatures = [each.convolution.signature for each in lower(imported, target).convolutions]
        algorithms = dict.fromkeys(signatures, algorithm)
        tasks = find_tasks(lower(imported, target, None, algorithms))
        (setting.folder / f"{algorithm}.tasks.json").write_text(json.dumps(tasks))
    schedule = Schedule(algorithms=FrozenMap(sorted(algorithms.items())))
    compile_with(setting, schedule, setting.folder / f"{algorithm}.tar")


def choose(setting: Setting, loads: Mapping[str, Load]) -> None:
    """Time each function of the packages, and write the fastest algorithm of each convolution; print the times."""
    from tvmbuild.compiler.convolution_times import fastest, sum_times  # noqa: PLC0415 - imports TVM

    tasks = {name: json.loads((setting.folder / f"{name}.tasks.json").read_text()) for name in loads}
    seconds: dict[str, float] = {}
    with device_lock("local", exclusive=True):
        for load in loads.values():
            with start_worker(load) as worker:
                worker.warm_up(0.5)
                for row in worker.profile().rows:
                    if row.key is not None:
                        seconds[row.key] = row.us / row.calls / 1e6
    times = sum_times(tasks, seconds, tasks["direct"])
    chosen = {signature: fastest(found) or "direct" for signature, found in times.items()}
    (setting.folder / "chosen.json").write_text(json.dumps(chosen))
    for signature, found in times.items():
        shown = ", ".join(f"{name} {value * 1e3:.3f} ms" for name, value in found.items())
        print(f"{setting.model.stem}: {signature}: {shown} -> {chosen[signature]}", file=sys.stderr, flush=True)


def check(setting: Setting, load: Load) -> float:
    """Return the largest error relative to the largest output; exit if the numeric gate would refuse the package."""
    wanted = read_reference(setting.folder / "reference.npz").outputs
    with start_worker(load) as worker:
        found = worker.outputs()
    problem = compare(found, wanted, Tolerance()).problem
    if problem is not None:
        sys.exit(f"{load.model.name}: {problem}")
    return max(float(np.max(np.abs(found[each] - wanted[each])) / np.max(np.abs(wanted[each]))) for each in wanted)


if __name__ == "__main__":
    sys.exit(main())
