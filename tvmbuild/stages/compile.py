"""compile:M@T — model and schedule → package."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal, cast

from tvmbuild.compiler.build import PROFILED, Applied, Coverage, apply_records, build_executable
from tvmbuild.compiler.importer import import_onnx
from tvmbuild.compiler.intrinsics import prepare_intrinsics
from tvmbuild.compiler.lift import lift_constants, params_bytes
from tvmbuild.compiler.link import LinkOptions, export_library
from tvmbuild.compiler.operators import describe_operators
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.precision import reduce_precision
from tvmbuild.compiler.target import tvm_target
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.files import sha256_file
from tvmbuild.frozen_map import FrozenMap
from tvmbuild.package.archive import Package, write_package
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget
from tvmbuild.progress import report_progress
from tvmbuild.replay.database import database_from_schedule
from tvmbuild.steps import CompileStep, Step

SCHEDULE_FORMAT = 1


def run(step: Step[CompileStep]) -> None:
    """Import, lower, apply the schedule's records, build, link and publish the package."""
    options = step.options
    # Shared: compiling beside a compile is fine, beside a timing it is not.
    with device_lock("local", exclusive=False):
        _compile(step, options)


def _compile(step: Step[CompileStep], options: CompileStep) -> None:
    schedule = _read_schedule(step.input("schedule"))
    target = tvm_target(options.kind, options.attributes, options.host)
    report_progress("importing")
    imported = reduce_precision(import_onnx(step.input("model"), options.model), options.precision, options.kind)
    report_progress("lowering")
    lowered = lower(imported, target, schedule["layout"], schedule.get("algorithms", {}))
    prepare_intrinsics(lowered.mod, target)
    database = database_from_schedule(schedule, extract_tasks(lowered), target)
    report_progress("applying records")
    applied = apply_records(lowered, target, database)
    check_coverage(applied.coverage, set(schedule["schedule"]), step)
    lifted = lift_constants(applied.mod, len(lowered.inputs))
    report_progress("generating code")
    executable = build_executable(lifted.mod, target)
    report_progress("linking")
    library = export_library(executable, target, LinkOptions(options.link, options.glibc))
    info = _info(step, lowered, applied, "embedded" if lifted.embedded else "lifted")
    write_package(step.output("package"), Package(info, library, params_bytes(lifted.params)))
    _report(info.coverage)


def check_coverage(coverage: Coverage, scheduled: AbstractSet[str], step: Step[CompileStep]) -> None:
    """Raise TvmbuildError unless exactly the Tasks of the schedule are covered: TVM drops a record without a word."""
    names = coverage.uncovered
    lost = [f"{names[key]} ({key})" for key in sorted(scheduled & names.keys())]
    lost += sorted(scheduled - names.keys() - coverage.covered.keys())
    if lost:
        raise TvmbuildError(
            f"{len(lost)} records of schedule.json were not applied: {', '.join(lost)}",
            f"run `doit forget tune:{step.subject}`, then doit again",
        )


def _read_schedule(path: Path) -> dict[str, Any]:
    schedule = json.loads(path.read_text(encoding="utf-8"))
    if schedule.get("format") != SCHEDULE_FORMAT:
        raise TvmbuildError(
            f"{path.name} has the format {schedule.get('format')!r}; this tvmbuild reads {SCHEDULE_FORMAT}",
            "run the cell's tune step again",
        )
    return cast("dict[str, Any]", schedule)


def _info(
    step: Step[CompileStep], lowered: Lowered, applied: Applied, params: Literal["lifted", "embedded"]
) -> PackageInfo:
    options = step.options
    inputs = step.inputs
    coverage = applied.coverage
    uncovered = tuple(coverage.uncovered.values())
    return PackageInfo(
        model=options.model,
        target=PackageTarget(
            options.target, options.kind, options.attributes, options.host, options.glibc, options.precision
        ),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        params=params,
        coverage=PackageCoverage(coverage.tasks, len(coverage.covered), uncovered),
        layout=lowered.layout,
        preprocess=options.preprocess,
        labels=_labels(inputs["labels"]) if "labels" in inputs else None,
        digests=FrozenMap({role: sha256_file(path) for role, path in sorted(inputs.items())}),
        tools=FrozenMap(sorted(step.tools.items())),
        notes=lowered.notes,
        operators=describe_operators(lowered.mod, applied.mod, coverage),
        profiled=PROFILED if options.kind == "llvm" else "main",
    )


def _labels(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise TvmbuildError(
            f"{path} is not text in UTF-8: {error.reason}", "correct `labels:` in models.yaml"
        ) from error


def _report(coverage: PackageCoverage) -> None:
    report_progress(f"{coverage.covered} of {coverage.tasks} tasks have records")
