"""A tune step with a record of its single Task."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import canonical_json, write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TuneOptions
from tvmbuild.base.steps import Step, TuneStep
from tvmbuild.records.schedule import Schedule
from tvmbuild.records.selection import (
    TaskId,
    elect_all,
    read_applicable_files,
    read_tasks,
    resolved_target,
    write_tasks,
)
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

OPTIONS = TuneStep(
    "pc", "llvm", FrozenMap({"mcpu": "znver4", "num-cores": 2}), FrozenMap(), "znver4", LocalDevice(), TuneOptions()
)
KEY, OTHER = "a" * 16, "b" * 16


def trace(number: int) -> str:
    return canonical_json({"decisions": [], "instructions": [["Seed", [], [number], []]]})


def task_file(key: str, *records: tuple[int, float, str], searched: int = 64) -> TaskFile:
    return TaskFile(
        key,
        "conv2d",
        "{}",
        canonical_json(resolved_target(OPTIONS).to_json()),
        "0.27.0",
        tuple(Record(trace(number), seconds, where, 2, "0.27.0") for number, seconds, where in records),
        FrozenMap({"znver4": searched}),
    )


def put(step: Step[TuneStep], file: TaskFile) -> None:
    write_task_file(record_path(Layout(step.root).records("pc"), file.key), file)


def select_schedule(folder: Path, keys: list[str], options: TuneStep) -> Schedule:
    return elect_all(read_applicable_files(folder, keys, resolved_target(options)), options.measured_on)


def publish(step: Step[TuneStep]) -> None:
    keys = [task.key for task in read_tasks(step.output("tasks"))]
    write_json(step.output("schedule"), select_schedule(Layout(step.root).records("pc"), keys, OPTIONS).to_json())


def make_step(root: Path) -> Step[TuneStep]:
    """Return a tune step that has run: one Task, one record, its Schedule elected."""
    outputs = FrozenMap({role: root / f"{role}.json" for role in ("tasks", "schedule", "info")})
    step = Step("tune", "m@pc", OPTIONS, outputs=outputs, root=root)
    put(step, task_file(KEY, (1, 2e-6, "znver4")))
    write_tasks(step.output("tasks"), [TaskId(KEY, "conv2d", 3)])
    publish(step)
    return step
