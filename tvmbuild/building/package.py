"""The compile stage's work in memory: it turns an ONNX model, a target and a Schedule into a package for the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tvmbuild.base.cuda_versions import choose_driver, show_version
from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.postprocess_specs import Postprocess
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.progress import report_progress
from tvmbuild.base.wording import count
from tvmbuild.building.scheduling import Model, ScheduledModel, schedule_model
from tvmbuild.compiler.apply import Coverage
from tvmbuild.compiler.codegen.executable import compile_module, name_profiled
from tvmbuild.compiler.codegen.link import LinkOptions, export_library
from tvmbuild.compiler.dump import dump_where_asked
from tvmbuild.compiler.entries import add_entries
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.machine.target import list_flags
from tvmbuild.compiler.operators import describe_operators, list_plain_loops
from tvmbuild.compiler.passes.lift_constants import lift_constants, params_bytes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package
from tvmbuild.package.metadata import SLOW, PackageCoverage, PackageInfo, PackageTarget
from tvmbuild.records.schedule import NO_RECORDS, Schedule


@dataclass(frozen=True)
class BuildOptions:
    """The options for linking a package, and the metadata that do not follow from its model and target."""

    name: str | None = None
    """The model's name. None means the name of the model's file without its suffix."""
    link: str = "auto"
    """The linker: ``auto`` for the bundled ziglang, or the name of a compiler command."""
    preprocess: Preprocess | None = None
    frames: tuple[Frame, ...] = ()
    postprocess: tuple[Postprocess, ...] = ()
    labels: tuple[str, ...] | None = None
    digests: FrozenMap[str, str] = FrozenMap()
    """Role of each input file of the build → SHA-256 of the file."""
    tools: FrozenMap[str, str] = FrozenMap()
    """Name of each tool of the build → its version."""
    partial: bool = False
    """True if the model is a part of the one that the Schedule is for, so that records may have no Task in it."""


def build_package(
    model: Model, target: PackageTarget, schedule: Schedule = NO_RECORDS, options: BuildOptions = BuildOptions()
) -> Package:
    """Build the package of a model for a target. Equal arguments and versions give equal packages in all processes.

    Raises TvmbuildError that names the part of the model that cannot be built, or the records of the Schedule that do
    not apply. A crash of TVM ends this process, so untrusted models should be built in a child process.
    """
    name = options.name or (model.stem if isinstance(model, Path) else "model")
    with dump_where_asked(f"{name}@{target.name}"):
        scheduled = schedule_model(model, target, schedule, options.name)
        if not options.partial:
            check_coverage(scheduled.coverage, schedule, f"{name}@{target.name}")
        lowered = scheduled.lowered
        interface = Interface(name, lowered.inputs, lowered.outputs)
        entries = EntryOptions(options.preprocess, options.frames, options.postprocess)
        lifted = lift_constants(add_entries(scheduled.mod, interface, entries, on_gpu=target.on_gpu))
        report_progress("generating code")
        compiled = compile_module(lifted.mod, scheduled.target)
    report_progress("linking")
    library = export_library(compiled.executable, scheduled.target, LinkOptions(options.link, target.glibc))
    params: Literal["embedded", "lifted"] = "embedded" if lifted.embedded else "lifted"
    operators = describe_operators(scheduled.lowered.mod, scheduled.mod, scheduled.coverage)
    plain = list_plain_loops(scheduled.mod, operators)
    info = PackageInfo(
        model=name,
        target=replace(_state_driver(target), flags=list_flags(scheduled.target.host or scheduled.target)),
        inputs=scheduled.lowered.inputs,
        outputs=scheduled.lowered.outputs,
        params=params,
        coverage=_count(scheduled),
        layout=scheduled.lowered.layout,
        preprocess=options.preprocess,
        frames=options.frames,
        postprocess=options.postprocess,
        labels=options.labels,
        digests=options.digests,
        tools=options.tools,
        notes=(*scheduled.lowered.notes, *scheduled.bugs, *(f"{SLOW}without records: {each}" for each in plain)),
        operators=operators,
        profiled=name_profiled(target.kind),
        workspace=compiled.memory.workspace,
        scratch=compiled.memory.scratch,
        largest=compiled.memory.largest,
    )
    return Package(info, library, params_bytes(lifted.params))


def _state_driver(target: PackageTarget) -> PackageTarget:
    """Return the target with its driver in the attributes if it is a CUDA target: the loader compares it."""
    if target.kind != "cuda":
        return target
    driver = show_version(choose_driver(target.attributes))
    return replace(target, attributes=FrozenMap(sorted({**target.attributes, "driver": driver}.items())))


def check_coverage(coverage: Coverage, schedule: Schedule, cell: str) -> None:
    """Raise TvmbuildError if a record of the Schedule was not applied, because TVM ignores such a record silently."""
    names, scheduled = coverage.uncovered, schedule.traces.keys()
    lost = [f"{names[key]} ({key})" for key in sorted(scheduled & names.keys())]
    lost += sorted(scheduled - names.keys() - coverage.covered.keys())
    if lost:
        raise TvmbuildError(
            f"{count(len(lost), 'record')} of schedule.json not applied: {', '.join(lost)}",
            f"run `doit forget tune:{cell}`, then doit again",
        )


def _count(scheduled: ScheduledModel) -> PackageCoverage:
    coverage = scheduled.coverage
    return PackageCoverage(coverage.tasks, len(coverage.covered), tuple(coverage.uncovered.values()))
