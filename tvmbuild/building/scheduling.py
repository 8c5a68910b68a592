"""The common part of every build: import for a target, lowering by a Schedule, and scheduling by its records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm

from tvmbuild.base.progress import report_progress
from tvmbuild.compiler.apply import Coverage, apply_records
from tvmbuild.compiler.bugs import collect_bugs
from tvmbuild.compiler.codegen.intrinsics import prepare_intrinsics
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import NO_RECORDS, Schedule
from tvmbuild.replay.database import database_from_schedule

Model = Path | bytes
"""An ONNX file, simplified or not, with static shapes; or its content."""


@dataclass(frozen=True)
class ScheduledModel:
    """A scheduled model, from which code for its target can be made."""

    lowered: Lowered
    """The model before records were applied."""
    mod: tvm.ir.IRModule
    """The model with records applied, and its weights repacked for them."""
    coverage: Coverage
    target: tvm.target.Target
    bugs: tuple[str, ...]
    """Failed passes and schedule rules of ours that a simpler way replaced, one line each."""


def import_for(model: Model, target: PackageTarget, name: str | None = None) -> ImportedModel:
    """Import the model in the target's precision. Messages call it ``name``, by default as the file."""
    return reduce_precision(import_onnx(model, name, for_gpu=target.on_gpu), target.precision, target.kind, name)


def lower_for(imported: ImportedModel, target: tvm.target.Target, schedule: Schedule = NO_RECORDS) -> Lowered:
    """Lower the model in the Schedule's layout and with its algorithms."""
    return lower(imported, target, schedule.layout, schedule.algorithms)


def lower_to_tasks(
    imported: ImportedModel, target: tvm.target.Target, schedule: Schedule = NO_RECORDS
) -> tuple[Lowered, tuple[Task, ...]]:
    """Lower the model and return it with its Tasks, and register the intrinsics that their records may name.

    Builds, searches and checks all use this function.
    """
    lowered = lower_for(imported, target, schedule)
    prepare_intrinsics(lowered.mod, target)
    return lowered, extract_tasks(lowered)


def make_target(target: PackageTarget) -> tvm.target.Target:
    """Return TVM's own value of the target."""
    return tvm_target(target.kind, target.attributes, target.host)


def schedule_model(
    model: Model, target: PackageTarget, schedule: Schedule = NO_RECORDS, name: str | None = None
) -> ScheduledModel:
    """Import, lower, and apply the Schedule's records. Tasks without a record are scheduled by rule.

    TvmbuildError names the part that TVM cannot build, or a record that it cannot read.
    """
    own = make_target(target)
    report_progress("importing")
    imported = import_for(model, target, name)
    with collect_bugs() as bugs:
        report_progress("lowering")
        lowered, tasks = lower_to_tasks(imported, own, schedule)
        database = database_from_schedule(schedule, tasks, own)
        report_progress("applying records")
        applied = apply_records(lowered, own, database)
    return ScheduledModel(lowered, applied.mod, applied.coverage, own, tuple(bugs))
