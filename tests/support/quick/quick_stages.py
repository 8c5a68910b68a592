"""Stages that compute nothing, for tests of the code that runs them: doit takes one second instead of ten.

They are functions of the same inputs and options as the real ones, find eight Tasks in every model, "measure" those
that the real tune stage would, elect from the real records, write the real files' formats and sizes, and fail where the
real ones do. `pytest -m nightly` runs the same tests with the real ones, except modules that say QUICK.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

from tvmbuild.base.files import canonical_json, publish, sha256_file, write_bytes, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import AnyStep, BenchmarkStep, CompileStep, QuantizeStep, SimplifyStep, TuneStep
from tvmbuild.benchmarking.agreement import Agreement, check_agreement
from tvmbuild.benchmarking.estimates import Estimate, Latency
from tvmbuild.benchmarking.history import append_entry, make_entry
from tvmbuild.benchmarking.results import Product, Result
from tvmbuild.devices.lock import device_lock
from tvmbuild.devices.machine_state import MachineState
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, read_metadata, write_package
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.records.selection import (
    TaskId,
    elect_all,
    is_wanted,
    list_missing,
    read_applicable_files,
    resolved_target,
    write_tasks,
)
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile
from tvmbuild.sources.export import obtain_model

SECONDS, BUG = "QUICK_STAGE_SECONDS", "QUICK_STAGE_BUG"
"""Environment variables: the seconds of a stage, spent with an output half written; the name of a stage with a bug."""
TASKS = (
    *(TaskId(f"{number:016x}", "conv2d_add_relu", 1) for number in (1, 2)),
    *(TaskId(f"{number:016x}", name, 1) for number, name in enumerate(("pad", "pool", "mul", "max", "sum", "any"), 3)),
)
TENSOR = TensorInfo("Input3", (1, 1, 28, 28), "float32")
SIZES = {"model": 26_000, "reference": 8_000, "library": 60_000}
"""The sizes in bytes, those of the tests' small network."""


def simplify(step: AnyStep) -> None:
    """Write files that depend on the source's bytes."""
    if not isinstance(step.options, SimplifyStep):
        raise TypeError(step.id)
    report_progress("running the original model")
    with obtain_model(step.options.source, step.root) as path, device_lock("local", exclusive=False):
        if path.read_bytes()[:1] != b"\x08":  # a ModelProto begins with its first field, ir_version
            raise TvmbuildError(f"{path} is no ONNX file", "check the source")
        digest = sha256_file(path)
    for role in ("model", "reference"):
        write_bytes(step.output(role), _fill(SIZES[role], role, digest, _options(step)))
    _work(step, "info")
    write_json(step.output("info"), {"format": 1, "simplified": True, "notes": [], "source_sha256": digest})


def quantize(step: AnyStep) -> None:
    """Write files that depend on the bytes of the model and the samples, and on the options."""
    if not isinstance(step.options, QuantizeStep):
        raise TypeError(step.id)
    report_progress("quantising")
    digests = {role: sha256_file(path) for role, path in sorted(step.inputs.items())}
    for role in ("model", "reference"):
        write_bytes(step.output(role), _fill(SIZES[role], role, list(digests.items()), _options(step)))
    _work(step, "info")
    write_json(step.output("info"), {"format": 1, "notes": []})


def tune(step: AnyStep) -> None:
    """Add two records for each Task that the real stage would search; elect."""
    options, folder = step.options, Layout(step.root)
    if not isinstance(options, TuneStep):
        raise TypeError(step.id)
    report_progress("extracting tasks")
    records, target = folder.records(options.target), resolved_target(options)
    files = read_applicable_files(records, (task.key for task in TASKS), target)
    wanted = [task for task in TASKS if is_wanted(task.name, options.tune)]
    searched = wanted if step.settings.tune == "full" else [*list_missing(files, TASKS, options.tune)]
    if step.settings.tune == "never" or not options.device.is_timed:
        searched = []
    here = options.measured_on or detect_capabilities().host_cpu
    for task in searched:
        found = tuple(Record(_trace(task.key, n), (n + 2) * 1e-6, here, 1, "0.27.0") for n in range(2))
        file = files.get(task.key) or TaskFile(task.key, task.name, "{}", canonical_json(target.to_json()), "0.27.0")
        file = file.with_results(here, found, options.tune.trials_per_task).with_rules(here, options.rules)
        write_task_file(record_path(records, task.key), file)
    schedule = elect_all(read_applicable_files(records, (task.key for task in TASKS), target), options.measured_on)
    uncovered = [task for task in TASKS if task.key not in schedule.traces]
    if uncovered and step.refuses_uncovered:
        raise TvmbuildError(f"{len(uncovered)} of {len(TASKS)} Tasks have no record", "tune them")
    write_tasks(step.output("tasks"), TASKS)
    told = {"tasks": len(TASKS), "covered": len(TASKS) - len(uncovered), "measured_now": 2 * len(searched)}
    names = [{"key": task.key, "name": task.name} for task in uncovered]
    write_json(step.output("info"), {"format": 1, "uncovered": names, "quarantined": [], "notes": [], **told})
    _work(step, "schedule")
    write_json(step.output("schedule"), schedule.to_json())


def compile_(step: AnyStep) -> None:
    """Write a package of the inputs' digests, the options, and the environment variables that must not come through."""
    if not isinstance(step.options, CompileStep):
        raise TypeError(step.id)
    report_progress("importing")
    leaks = sorted(item for item in os.environ.items() if item[0].startswith(("TVM_", "PYTHONHASHSEED")))
    digests = {role: sha256_file(path) for role, path in step.inputs.items()}
    info = PackageInfo(
        model=step.options.model,
        target=PackageTarget(step.options.target, step.options.kind),
        inputs=(TENSOR,),
        outputs=(TENSOR,),
        params="lifted",
        coverage=PackageCoverage(len(TASKS), 0, ()),
        layout="NHWC",
        digests=FrozenMap(digests),
    )
    _work(step, "package")
    library = _fill(SIZES["library"], list(digests.items()), _options(step), leaks)
    write_package(step.output("package"), Package(info, library, b"weights"))


def benchmark(step: AnyStep) -> None:
    """Write a result; its numbers are wrong if no difference at all is tolerated."""
    if not isinstance(step.options, BenchmarkStep):
        raise TypeError(step.id)
    report_progress("comparing with the reference")
    if step.options.tolerance.atol == 0:
        raise TvmbuildError("the package computes wrong numbers", "raise its `tolerance:`")
    with device_lock("local", exclusive=True):
        _work(step, "result")
    one = Estimate(1 + time.time() % 1, 0.9, 2.1)  # no two measurements are alike
    package = step.input("package")
    product = Product(step.options.target, "0" * 16, sha256_file(package), package.stat().st_size, len(TASKS), 0)
    machine = MachineState("A CPU", 2, None, 0.1, 0.01, 61.0)
    result = Result(step.subject, product, 1, Latency(one, 1.2, 0.9, 3, 1), (), (), machine, 1e-6, 1e-6)
    if step.options.accuracy:
        worst = f"{step.options.accuracy.paths[0]}[1]"
        agreement = Agreement(2, 2, 1e-6, 10.0, 1e-7, 1e-8, worst_of_largest=worst, worst_rms=worst)
        result = replace(result, accuracy=agreement)
    layout, (model, target) = Layout(step.root), step.subject.split("@", 1)
    used = read_metadata(package).digests.get("schedule")
    append_entry(layout.history, make_entry(result, layout.cell_file(model, target, "schedule.json"), used))
    write_json(step.output("result"), result.to_json())
    check_agreement(result.accuracy, step.options.accuracy)


STAGES: dict[str, Callable[[AnyStep], None]] = {
    "simplify": simplify,
    "quantize": quantize,
    "tune": tune,
    "compile": compile_,
    "benchmark": benchmark,
}


def take_the_stages_place() -> None:
    """Let an import of a stage's module find one of these stages."""
    for name, run in STAGES.items():
        module = ModuleType(f"tvmbuild.stages.{name}")
        module.run = run  # type: ignore[attr-defined]
        sys.modules[module.__name__] = module


def _options(step: AnyStep) -> list[tuple[str, str]]:
    return [(name, value) for name, value in fingerprint(step).items() if name.startswith("option.")]


def _fill(size: int, *what: object) -> bytes:
    """Return ``size`` bytes that depend on these values."""
    return b"\x08" + hashlib.shake_256(repr(what).encode()).digest(size)


def _trace(key: str, number: int) -> str:
    return canonical_json({"decisions": [[0, number]], "instructions": [["Seed", [], [int(key, 16), number], []]]})


def _work(step: AnyStep, role: str) -> None:
    """Wait or fail as the environment says, with a half-written output beside the true one."""
    if os.environ.get(BUG) == step.stage:
        raise RuntimeError("a damaged installation")
    seconds = float(os.environ.get(SECONDS, "0"))
    if not seconds:
        return
    path = step.output(role)
    with contextlib.suppress(_Over), publish(path) as temporary:
        temporary.write_bytes(b"half of it")
        time.sleep(seconds)
        raise _Over


class _Over(Exception):  # noqa: N818 - no error
    """The error that the time is over, and the half-written output goes."""
