"""The stage compile:M@T: build a package from a model and a schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import CompileStep, Step
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, write_package
from tvmbuild.package.memory import Memory, format_size
from tvmbuild.package.metadata import PackageInfo, PackageTarget
from tvmbuild.records.schedule import read_schedule


def run(step: Step[CompileStep]) -> None:
    """Build the package of the step's model, target and schedule, and publish it."""
    options = step.options
    target = PackageTarget(
        options.target, options.kind, options.attributes, options.host, options.glibc, options.precision
    )
    # Shared: compiles may run side by side, but not beside a timing.
    with device_lock("local", exclusive=False):
        schedule = read_schedule(step.input("schedule"))
        tools = FrozenMap(sorted(step.tools.items()))
        built = BuildOptions(
            options.model, options.link, options.preprocess, options.frames, options.postprocess, tools=tools
        )
        package = build_package(step.input("model"), target, schedule, built)
        check_memory(package, f"{options.model}@{options.target}", options.memory)
        write_package(step.output("package"), replace(package, info=_describe(step, package.info)))
        coverage = package.info.coverage
        report_progress(f"{coverage.covered} of {coverage.tasks} tasks have records")


def check_memory(package: Package, cell: str, limit: int | None) -> None:
    """Raise TvmbuildError that names what takes the memory if the package takes more than ``limit`` bytes."""
    memory = Memory(len(package.params), package.info.workspace, len(package.library))
    if limit is not None and memory.total > limit:
        raise TvmbuildError(
            f"{cell} takes {format_size(memory.total)} of memory, and the target allows {format_size(limit)}: "
            f"{memory.describe()}",
            "raise `memory:` of the target, or take a smaller input, `precision: fp16` or int8, or a smaller model",
        )


def _describe(step: Step[CompileStep], info: PackageInfo) -> PackageInfo:
    """Return the package's metadata with the labels and the digests of the step's input files added."""
    inputs = step.inputs
    labels = _read_labels(inputs["labels"]) if "labels" in inputs else None
    digests = FrozenMap({role: sha256_file(path) for role, path in sorted(inputs.items())})
    return replace(info, labels=labels, digests=digests)


def _read_labels(path: Path) -> tuple[str, ...]:
    kind = recognise_wrapping(path)
    if kind is not None:
        raise TvmbuildError(f"{path} has no names of classes: it is {kind.name}", kind.remedy)
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise TvmbuildError(
            f"{path} is not text in UTF-8: {error.reason}", "correct `labels:` in models.yaml"
        ) from error
