"""A project that looks as if every step had run: outputs, state and records on disk, no compiler needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from doit_project import DoitProject, write_project

from tvmbuild.base.files import canonical_json, write_json, write_text
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import AnyStep, Settings, TuneStep
from tvmbuild.doit_adapter.state import RECORD
from tvmbuild.engine.file_digests import FileDigests
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.planning.detection import detect_capabilities
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.project import load_plan
from tvmbuild.records.selection import TaskId, elect_all, read_applicable_files, resolved_target, write_tasks
from tvmbuild.records.store import record_path, write_task_file
from tvmbuild.records.task_file import Record, TaskFile

CONV, SHARED, POOL = "c" * 16, "d" * 16, "e" * 16
MODELS = """\
models:
  first: {source: {path: digits.onnx}}
  second: {source: {path: digits.onnx}, targets: {include: [v3]}}
"""
TARGETS = """\
defaults: {device: local, tune: {trials_per_task: 64}}
targets:
  v2: {kind: llvm, mcpu: x86-64-v2, mtriple: x86_64-linux-gnu, num-cores: 1, tune: {ops: []}}
  v3: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 1}
"""
TASKS = {
    "first": (TaskId(CONV, "conv2d_add_relu", 1), TaskId(SHARED, "conv2d_add", 2), TaskId(POOL, "max_pool", 1)),
    "second": (TaskId(SHARED, "conv2d_add", 1),),
}
"""Model → Tasks; `conv2d_add` is in both."""


def here() -> str:
    """Return this machine's device class, as planning knows it."""
    return detect_capabilities().host_cpu


def trace(number: int) -> str:
    return canonical_json({"decisions": [], "instructions": [["Seed", [], [number], []]]})


def task_file(task: TaskId, options: TuneStep, times: Sequence[float], searched: int = 64) -> TaskFile:
    """Return the file of a Task that this machine has searched: one record for each of the ``times`` in seconds."""
    records = tuple(Record(trace(number), seconds, here(), 1, "0.27.0") for number, seconds in enumerate(times))
    target = canonical_json(resolved_target(options).to_json())
    return TaskFile(
        task.key,
        task.name,
        "{}",
        target,
        "0.27.0",
        records,
        FrozenMap({here(): searched}),
        rules=FrozenMap({here(): options.rules}),
    )


def put(project: DoitProject, file: TaskFile, target: str = "v3") -> Path:
    """Write the record file."""
    path = record_path(Layout(project.root).records(target), file.key)
    write_task_file(path, file)
    return path


def tune_options(project: DoitProject, step_id: str = "tune:first@v3") -> TuneStep:
    step = load_plan(project.root, Settings()).find(step_id)
    assert step is not None
    assert isinstance(step.options, TuneStep)
    return step.options


def write_finished_project(folder: Path, tasks: Mapping[str, Sequence[TaskId]] = TASKS) -> DoitProject:
    """Return two models on v3, the first also on v2: all searched on v3, up to date with tune=never."""
    model = folder / "net.onnx"
    model.write_bytes(b"a model")
    project = write_project(folder, model, MODELS, TARGETS)
    options = tune_options(project)
    for task in {task.key: task for each in tasks.values() for task in each}.values():
        put(project, replace(task_file(task, options, [2e-6, 3e-6]), spent=FrozenMap({here(): 128.0})))
    finish(load_plan(project.root, Settings()), tasks)
    return project


def finish(plan: Plan, tasks: Mapping[str, Sequence[TaskId]]) -> None:
    """Write the outputs and the state of every step that can run here."""
    for step in plan.steps:
        if step.unavailable is None:
            _write_outputs(step, tasks)
            digests = FileDigests(step)
            record = {
                "fingerprint": fingerprint(step),
                "inputs": {role: digests.digest(path) for role, path in step.inputs.items()},
                "outputs": {role: digests.digest(path) for role, path in step.outputs.items()},
            }
            write_json(Layout(plan.root).state / f"{step.id.replace(':', '%3A')}.json", {"_values_:": {RECORD: record}})


def _write_outputs(step: AnyStep, tasks: Mapping[str, Sequence[TaskId]]) -> None:
    for role, path in step.outputs.items():
        write_text(path, f"{role} of {step.id}\n")
    if isinstance(step.options, TuneStep):
        known = tasks[step.subject.partition("@")[0]]
        folder = Layout(step.root).records(step.options.target)
        files = read_applicable_files(folder, (task.key for task in known), resolved_target(step.options))
        schedule = elect_all(files, step.options.measured_on)
        write_tasks(step.output("tasks"), known)
        write_json(step.output("schedule"), schedule.to_json())
        lacking = [task for task in known if task.key not in schedule.traces]
        write_json(step.output("info"), {"uncovered": [{"key": task.key, "name": task.name} for task in lacking]})
