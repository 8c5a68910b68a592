"""The common steps of every build: import a model for a target, lower it, and schedule it with a Schedule's records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm

from tvmbuild.base.attributes import ROUNDED
from tvmbuild.base.progress import report_progress
from tvmbuild.compiler.apply import Coverage, apply_records
from tvmbuild.compiler.bugs import collect_bugs
from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.precision import reduce_precision
from tvmbuild.compiler.pipeline import Lowered, lower
from tvmbuild.compiler.tasks import Task, extract_tasks
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.records.schedule import NO_RECORDS, Schedule
from tvmbuild.replay.database import database_from_schedule

Model = Path | bytes
"""The path of an ONNX file with static shapes, simplified or not, or the content of this file."""


@dataclass(frozen=True)
class ScheduledModel:
    """A scheduled model, ready for code generation."""

    lowered: Lowered
    """The model before the records were applied."""
    mod: tvm.ir.IRModule
    """The model after the records were applied. Constant weights are repacked as the schedules require."""
    coverage: Coverage
    target: tvm.target.Target
    bugs: tuple[str, ...]
    """One line for each of our passes and schedule rules that failed and was replaced by a simpler way."""


def import_for(model: Model, target: PackageTarget, name: str | None = None) -> ImportedModel:
    """Import the model and convert it to the target's precision.

    ``name`` is the model's name in messages; by default it is the name of the file.
    """
    keep = target.keep if target.precision in ROUNDED else ()
    imported = import_onnx(model, name, for_gpu=target.on_gpu, keep=keep)
    return reduce_precision(imported, target.precision, target.kind, name)


def lower_for(imported: ImportedModel, target: tvm.target.Target, schedule: Schedule = NO_RECORDS) -> Lowered:
    """Lower the model with the layout and the algorithms of the Schedule. Its records are not applied yet."""
    return lower(imported, target, schedule.layout, schedule.algorithms)


def lower_to_tasks(
    imported: ImportedModel, target: tvm.target.Target, schedule: Schedule = NO_RECORDS
) -> tuple[Lowered, tuple[Task, ...]]:
    """Lower the model, and return it and its Tasks.

    Builds, searches and `tvmbuild check` all use this function.
    """
    skip_tensor_intrinsics()
    lowered = lower_for(imported, target, schedule)
    return lowered, extract_tasks(lowered)


def make_target(target: PackageTarget) -> tvm.target.Target:
    """Return the target as TVM's own Target object."""
    return tvm_target(target.kind, target.attributes, target.host)


def schedule_model(
    model: Model, target: PackageTarget, schedule: Schedule = NO_RECORDS, name: str | None = None
) -> ScheduledModel:
    """Import and lower the model, and apply the Schedule's records. Tasks without a record are scheduled by rule.

    ``name`` is the model's name in messages. Raises TvmbuildError that names the part of the model that TVM cannot
    build, or the record that it cannot read.
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
