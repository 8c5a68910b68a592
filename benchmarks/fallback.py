"""A model without any record: TVM's naive loop nests, the fallback schedules, ONNX Runtime.

python benchmarks/fallback.py MODEL.onnx [MODEL.onnx …] [--cpu x86-64-v3] [--threads 2]

Builds each model twice through the compile stage, checks both packages' numbers against ONNX Runtime's, and times them
and ONNX Runtime in turns, each in a process of its own, the idle ones stopped. Wants a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tuner_contestants import TARGET, Setting, simplify_model

from tvmbuild.devices.local import Load, start_worker
from tvmbuild.host_cpu import cpu_name
from tvmbuild.specs import CompileStep, Step, Tolerance
from tvmbuild.stages.compare import compare
from tvmbuild.stages.reference import read_reference

ROUNDS = 9
WARM_UP_S = 0.1
ROUND_S = 0.3
"""Seconds of samples a round; a slow model still gets one."""
MAX_CALLS = 50


@dataclass(frozen=True)
class Result:
    """Median latencies in ms, and the seconds that each of the two builds took."""

    model: str
    naive_ms: float
    fallback_ms: float
    onnxruntime_ms: float
    naive_build_s: float
    fallback_build_s: float


def main() -> int:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--cpu", default="x86-64-v3")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    results = []
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(Setting(model.absolute(), args.cpu, args.threads, 0, Path(folder))))
            print(results[-1], file=sys.stderr, flush=True)
    show(results, f"{args.cpu}, {args.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}")
    return 0


def measure(setting: Setting) -> Result:
    """Build both packages, check their numbers and time them."""
    _in_child(simplify_model, setting)
    packages = {name: setting.folder / f"{name}.tar" for name in ("naive", "fallback")}
    seconds = []
    for name, package in packages.items():
        start = time.monotonic()
        _in_child(build_package, setting, name == "fallback", package)
        seconds.append(time.monotonic() - start)
    reference = setting.folder / "reference.npz"
    loads = [Load("tvm", package, reference, setting.threads) for package in packages.values()]
    loads.append(Load("onnxruntime", setting.folder / "model.onnx", reference, setting.threads))
    with ExitStack() as stack:
        workers = [stack.enter_context(start_worker(load)) for load in loads]
        wanted = read_reference(reference).outputs
        for worker, name in zip(workers, packages, strict=False):
            problem = compare(worker.outputs(), wanted, Tolerance()).problem
            if problem is not None:
                sys.exit(f"{setting.model.name}, {name}: {problem}")
        medians = _time_in_turns(workers)
    return Result(setting.model.stem, medians[0], medians[1], medians[2], *seconds)


def build_package(setting: Setting, fallback: bool, package: Path) -> None:
    """Compile the model with no record, with the fallback schedules or without."""
    from tvmbuild.compiler import build  # noqa: PLC0415 - runs in a process of its own
    from tvmbuild.files import write_json  # noqa: PLC0415
    from tvmbuild.records.selection import Schedule  # noqa: PLC0415
    from tvmbuild.stages import compile as compile_stage  # noqa: PLC0415

    if not fallback:
        vars(build)["schedule_uncovered"] = _leave
    schedule = package.with_suffix(".schedule.json")
    write_json(schedule, Schedule(()).to_json())
    options = CompileStep(setting.model.stem, TARGET, "llvm", setting.attributes, (), "auto", None, None)
    inputs = (("model", setting.folder / "model.onnx"), ("schedule", schedule))
    compile_stage.run(Step("compile", package.stem, options, inputs, (("package", package),), root=setting.folder))


def _leave(mod: Any, _target: Any) -> Any:
    return mod


def _time_in_turns(workers: list[Any]) -> list[float]:
    samples: list[list[float]] = [[] for _ in workers]
    for worker in workers:
        worker.pause()
    for _ in range(ROUNDS):
        for worker, found in zip(workers, samples, strict=True):
            worker.resume()
            calls = max(1, min(MAX_CALLS, int(ROUND_S * 1000 / worker.warm_up(WARM_UP_S))))
            found.extend(worker.time(1, calls))
            worker.pause()
    return [statistics.median(found) for found in samples]


def _in_child(function: Any, *arguments: Any) -> None:
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{function.__name__} failed")


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
    gains = [math.log(result.naive_ms / result.fallback_ms) for result in results]
    ratios = [math.log(result.fallback_ms / result.onnxruntime_ms) for result in results]
    means = (f"{math.exp(statistics.fmean(values)):.2f}" for values in (gains, ratios))
    table.add_row("geometric mean", "", "", "", *means, "")
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main())
