"""compile:M@T — model and schedule → package."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.files import sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import CompileStep, Step
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import read_schedule


def run(step: Step[CompileStep]) -> None:
    """Build the package of the step's model, target and schedule, and publish it."""
    options = step.options
    target = PackageTarget(
        options.target, options.kind, options.attributes, options.host, options.glibc, options.precision
    )
    # Shared: compiling beside a compile is fine, beside a timing it is not.
    with device_lock("local", exclusive=False):
        schedule = read_schedule(step.input("schedule"))
        package = build_package(step.input("model"), target, schedule, _options(step))
        write_package(step.output("package"), package)
        coverage = package.info.coverage
        report_progress(f"{coverage.covered} of {coverage.tasks} tasks have records")


def _options(step: Step[CompileStep]) -> BuildOptions:
    inputs, options = step.inputs, step.options
    return BuildOptions(
        name=options.model,
        link=options.link,
        preprocess=options.preprocess,
        labels=_read_labels(inputs["labels"]) if "labels" in inputs else None,
        digests=FrozenMap({role: sha256_file(path) for role, path in sorted(inputs.items())}),
        tools=FrozenMap(sorted(step.tools.items())),
    )


def _read_labels(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise TvmbuildError(
            f"{path} is not text in UTF-8: {error.reason}", "correct `labels:` in models.yaml"
        ) from error
