"""Packages of one model that differ in how they were compiled, and ONNX Runtime: checked, then timed in turns."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from network_files import network_file
from tuner_contestants import Setting, run_in_child, simplify_model, time_loads

from tvmbuild.base.host_cpu import cpu_name
from tvmbuild.base.specs import Tolerance
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.preparing.reference import read_reference

SAMPLES = 200
Builder = Callable[[Setting, Path], None]
"""A function that compiles the setting's simplified model to a package, in its own process."""


def make_parser(description: str | None, cpu: str) -> argparse.ArgumentParser:
    """Return a parser of models, --cpu and --threads."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=network_file, nargs="+")
    parser.add_argument("--cpu", default=cpu)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def open_settings(args: argparse.Namespace) -> Iterator[Setting]:
    """Yield the setting of each model that ``make_parser``'s parser read; its folder is removed after it."""
    os.environ |= {"TVM_NUM_THREADS": str(args.threads), "OMP_WAIT_POLICY": "passive"}
    for model in args.models:
        with tempfile.TemporaryDirectory() as folder:
            yield Setting(model.absolute(), args.cpu, args.threads, 0, Path(folder))


def describe(setting: Setting) -> str:
    """Return a description of the setting of the times."""
    return f"{setting.cpu}, {setting.threads} threads, {cpu_name()}, {time.strftime('%Y-%m-%d')}"


def check_package(load: Load, tolerance: Tolerance, name: str) -> None:
    """Exit if the package's numbers differ from those of the load's reference."""
    wanted = read_reference(load.reference)
    with start_worker(load) as worker:
        problem = wanted.compare(worker.outputs(), tolerance).problem
    if problem is not None:
        sys.exit(f"{name}: {problem}")


def time_variants(setting: Setting, builders: Mapping[str, Builder]) -> tuple[dict[str, float], dict[str, float]]:
    """Return median latencies in ms, including ``ONNX Runtime``'s, and the seconds that each build took.

    If a package's numbers differ from the original model's, the program exits.
    """
    run_in_child(simplify_model, setting)
    seconds, loads, reference = {}, {}, setting.folder / "reference.npz"
    for name, builder in builders.items():
        package, start = setting.folder / f"{name}.tar", time.monotonic()
        run_in_child(builder, setting, package)
        seconds[name] = time.monotonic() - start
        loads[name] = Load("tvm", package, reference, setting.threads)
    for name, load in loads.items():
        check_package(load, Tolerance(), f"{setting.model.name}, {name}")
    loads["ONNX Runtime"] = Load("onnxruntime", setting.folder / "model.onnx", reference, setting.threads)
    return time_loads(loads, SAMPLES), seconds
