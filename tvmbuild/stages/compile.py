"""The stage compile:M@T: build a package from a model and a schedule."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.files import canonical_json, sha256_file
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.kept_nodes import list_kept
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import SIZES, Size, Sizes
from tvmbuild.base.steps import CompileStep, Step, find_model
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.building.sizes import Varying, join_packages
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, read_package, write_package
from tvmbuild.package.memory import find_memory, format_size
from tvmbuild.package.metadata import PackageInfo, PackageTarget
from tvmbuild.preparing.sizes import Padding
from tvmbuild.records.schedule import read_schedule


def run(step: Step[CompileStep]) -> None:
    """Build the package of the step's model, target and schedule, and publish it."""
    # Shared: compiles may run side by side, but not beside a timing.
    with device_lock("local", exclusive=False):
        if step.options.sizes is None:
            package = _build(step, step.input("model"), step.input("schedule"))
        else:
            package = _build_sizes(step, step.options.sizes)
        check_memory(package, f"{step.options.model}@{step.options.target}", step.options.memory)
        write_package(step.output("package"), replace(package, info=_describe(step, package.info)))
        coverage = package.info.coverage
        report_progress(f"{coverage.covered} of {coverage.tasks} tasks have records")


def _build(step: Step[CompileStep], model: Path, schedule: Path) -> Package:
    """Return the package of a model, which is the step's model or one size of it."""
    options = step.options
    target = PackageTarget(
        options.target,
        options.kind,
        options.attributes,
        options.host,
        options.glibc,
        options.precision,
        list_kept(step),
    )
    tools = FrozenMap(sorted(step.tools.items()))
    built = BuildOptions(
        options.model, options.link, options.preprocess, options.frames, options.postprocess, tools=tools
    )
    return build_package(model, target, read_schedule(schedule), built)


def _build_sizes(step: Step[CompileStep], sizes: Sizes) -> Package:
    """Return the package of all sizes. A size that was built before with the same inputs is not built again."""
    folder, built, used = Layout(step.root).parts(step.output("package")), list[tuple[Size, Package]](), set[Path]()
    for size in sizes.choices:
        model, schedule = find_model(step, size.name), step.input(size.role("schedule"))
        part = folder / f"{size.name}-{_digest(step, model, schedule)}.tar"
        package = _read_part(part)
        if package is None:
            report_progress(f"building {size.name}")
            package = _build(step, model, schedule)
            write_package(part, package)
        built.append((size, package))
        used.add(part)
    for left in set(folder.iterdir()) - used:
        left.unlink()
    padding = Padding.from_json(json.loads(step.input(SIZES).read_text(encoding="utf-8")))
    return join_packages(built, Varying(sizes, padding.outputs, padding.letters))


def _read_part(path: Path) -> Package | None:
    try:
        return read_package(path)
    except TvmbuildError:
        return None


def _digest(step: Step[CompileStep], *inputs: Path) -> str:
    """Return the digest of all that determines the package of one size."""
    options = replace(step.options, sizes=None, memory=None)
    told = [repr(options), *list_kept(step), sorted(step.tools.items()), sorted(step.environment.items()), step.version]
    return hashlib.sha256(canonical_json([*told, *map(sha256_file, inputs)]).encode()).hexdigest()[:16]


def check_memory(package: Package, cell: str, limit: int | None) -> None:
    """Raise TvmbuildError that names what takes the memory if the package takes more than ``limit`` bytes."""
    memory = find_memory(package.info, {name: len(data) for name, data in package.contents.items()})
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
