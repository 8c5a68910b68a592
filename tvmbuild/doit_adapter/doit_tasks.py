"""Step → doit's task, as the dictionary that doit wants."""

from __future__ import annotations

from collections.abc import Iterator

from tvmbuild.base.steps import AnyStep, CompileStep, Settings, TuneStep, has_options
from tvmbuild.devices.table import device_kind
from tvmbuild.doit_adapter.actions import clean_step, refuse_step, run_step, write_reports
from tvmbuild.doit_adapter.uptodate import UpToDate
from tvmbuild.engine.executor import Executor
from tvmbuild.planning.plan import Plan
from tvmbuild.stages.table import STAGES
from tvmbuild.targets.table import target_kind

TaskDict = dict[str, object]

GROUP_DOCS = {
    "simplify": "fetch, check and simplify every model",
    "tune": "search schedules for every model on every target",
    "compile": "build the package of every model for every target",
    "validate": "compare the numbers of packages that cannot run here, computed by this CPU",
    "benchmark": "check numbers and measure latency of every package",
}


def list_tasks(plan: Plan, settings: Settings, executor: Executor) -> Iterator[TaskDict]:
    """Yield a group for each stage, then a subtask for each step, which the executor runs."""
    for stage in STAGES:
        yield {"basename": stage.name, "name": None, "doc": GROUP_DOCS[stage.name]}
    yield {
        "basename": "report",
        "doc": "write build/report.md and build/report.html from the files on disk",
        "actions": [(write_reports, [plan.root, plan.steps])],
        "io": {"capture": False},
        "verbosity": 2,
    }
    for step in plan.steps:
        yield _unavailable_task(step, settings) if step.unavailable else _make_task(step, executor)


def _make_task(step: AnyStep, executor: Executor) -> TaskDict:
    # Relative paths: the state stays true when the project is moved, and `doit build/…/x.tar` works.
    return {
        "basename": step.stage,
        "name": step.subject,
        "doc": _describe(step),
        "actions": [(run_step, [step, executor])],
        "file_dep": [path.relative_to(step.root) for path in step.inputs.values()],
        "targets": [path.relative_to(step.root) for path in step.outputs.values()],
        "uptodate": [UpToDate(step)],
        "clean": [(clean_step, [step])],
        "io": {"capture": False},
        "verbosity": 2,
    }


def _unavailable_task(step: AnyStep, settings: Settings) -> TaskDict:
    """Make a task with nothing to do, or with `strict=1` one that fails. It declares no file, so doit checks none."""
    return {
        "basename": step.stage,
        "name": step.subject,
        "doc": f"unavailable: {step.unavailable}",
        "actions": [(refuse_step, [step])] if settings.strict else [],
        "uptodate": [not settings.strict],
        "clean": [(clean_step, [step])],
        "io": {"capture": False},
        "verbosity": 2,
    }


def _describe(step: AnyStep) -> str:
    model = step.model
    if has_options(step, TuneStep):
        return f"search schedules of {model} for {step.options.target}{_describe_timing(step.options)}"
    if has_options(step, CompileStep):
        return f"build the package of {model} for {step.options.target} ({_describe_hardware(step.options)})"
    if step.stage == "validate":
        return f"compute {step.subject} on this CPU and compare its numbers"
    if step.stage == "benchmark":
        return f"check and time {step.subject}"
    return f"fetch, check and simplify {model}"


def _describe_timing(options: TuneStep) -> str:
    return device_kind(options.device).describe_timing(options.device)


def _describe_hardware(options: CompileStep) -> str:
    return target_kind(options.kind).describe(options.attributes)
