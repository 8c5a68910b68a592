"""The stage compile:M@T: build a package from a model and a schedule."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tvmbuild.base.files import canonical_json, sha256_file, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.kept_nodes import list_kept
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import SIZES, Size, Sizes
from tvmbuild.base.steps import CompileStep, Step, find_model
from tvmbuild.building.package import BuildOptions, build_package
from tvmbuild.building.sizes import Varying, join_packages
from tvmbuild.compiler.schedules.cpu.packing import Costs, agree, list_changes, share_packings
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, read_package, write_package
from tvmbuild.package.memory import find_memory, format_size
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.preparing.sizes import Padding
from tvmbuild.records.schedule import read_schedule
from tvmbuild.stages.entries import check_stated_entries, read_labels
from tvmbuild.stages.target import describe_target


def run(step: Step[CompileStep]) -> None:
    """Build the package of the step's model, target and schedule, and publish it."""
    # Shared: compiles may run side by side, but not beside a timing.
    with device_lock("local", exclusive=False):
        check_stated_entries(step.input("model"), step.options.model, step.options, step.inputs.get("labels"))
        if step.options.sizes is None:
            shutil.rmtree(Layout(step.root).parts(step.output("package")), ignore_errors=True)  # of sizes until now
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
    tools = FrozenMap(sorted(step.tools.items()))
    built = BuildOptions(
        options.model, options.link, options.preprocess, options.frames, options.postprocess, tools=tools
    )
    return build_package(model, describe_target(step), read_schedule(schedule), built)


def _build_sizes(step: Step[CompileStep], sizes: Sizes) -> Package:
    """Return the package of all sizes. A size that was built before with the same inputs is not built again.

    Each size is built alone first; then those again whose weights another layout stores once for all sizes.
    """
    parts = _Parts(step, Layout(step.root).parts(step.output("package")))
    alone = [parts.build(size, {}) for size in sizes.choices]
    agreed = agree([each.costs for each in alone])
    built = [
        (size, parts.build(size, changes).package if (changes := list_changes(agreed, own.costs)) else own.package)
        for size, own in zip(sizes.choices, alone, strict=True)
    ]
    parts.remove_others()
    padding = Padding.from_json(json.loads(step.input(SIZES).read_text(encoding="utf-8")))
    return join_packages(built, Varying(sizes, padding.outputs, padding.letters))


class _Part(NamedTuple):
    """The package of one size, and the costs of the layouts of its weights."""

    package: Package
    costs: Costs


class _Parts:
    """The folder of the packages of single sizes. Those in its folder `shared` have layouts that the sizes agree on."""

    def __init__(self, step: Step[CompileStep], folder: Path) -> None:
        self._step, self._folder = step, folder
        self._used: set[Path] = set()

    def build(self, size: Size, widths: Mapping[str, int]) -> _Part:
        """Return the package of a size with these widths of packed weights, from the folder if it is there."""
        model, schedule = find_model(self._step, size.name), self._step.input(size.role("schedule"))
        folder = self._folder / "shared" if widths else self._folder
        path = folder / f"{size.name}-{_digest(self._step, widths, model, schedule)}.tar"
        note = path.with_suffix(".json")
        self._used |= {path, note}
        found = _read_part(path, note)
        if found is not None:
            return found
        report_progress(f"building {size.name}, with the layouts of other sizes" if widths else f"building {size.name}")
        with share_packings(widths) as packings:
            package = _build(self._step, model, schedule)
        write_package(path, package)
        costs = {form: [[width, cost] for width, cost in each.items()] for form, each in packings.costs.items()}
        write_json(note, costs)
        return _Part(package, packings.costs)

    def remove_others(self) -> None:
        """Remove the files that no call of `build` has returned or written."""
        for path in self._folder.rglob("*"):
            if path.is_file() and path not in self._used:
                path.unlink()


def _read_part(path: Path, note: Path) -> _Part | None:
    try:
        costs = json.loads(note.read_text(encoding="utf-8"))
        return _Part(read_package(path), {form: dict(each) for form, each in costs.items()})
    except (OSError, TvmbuildError, ValueError):
        return None


def _digest(step: Step[CompileStep], widths: Mapping[str, int], *inputs: Path) -> str:
    """Return the digest of all that determines the package of one size."""
    options = replace(step.options, sizes=None, memory=None)
    told = [repr(options), *list_kept(step), sorted(step.tools.items()), sorted(step.environment.items()), step.version]
    told += [sorted(widths.items())] if widths else []
    return hashlib.sha256(canonical_json([*told, *map(sha256_file, inputs)]).encode()).hexdigest()[:16]


def check_memory(package: Package, cell: str, limit: int | None) -> None:
    """Raise TvmbuildError that names what takes the memory if the package takes more than ``limit`` bytes."""
    memory = find_memory(package.info, {name: len(data) for name, data in package.contents.items()})
    excess = None if limit is None else memory.explain_excess(limit)
    if excess is not None:
        raise TvmbuildError(
            f"{cell} takes {format_size(memory.total)} of memory ({memory.describe()}), {excess}",
            "raise `memory:` of the target, or take a smaller input, `precision: fp16` or int8, or a smaller model",
        )


def _describe(step: Step[CompileStep], info: PackageInfo) -> PackageInfo:
    """Return the package's metadata with the labels and the digests of the step's input files added."""
    inputs = step.inputs
    labels = read_labels(inputs["labels"]) if "labels" in inputs else None
    digests = FrozenMap({role: sha256_file(path) for role, path in sorted(inputs.items())})
    return replace(info, labels=labels, digests=digests)
