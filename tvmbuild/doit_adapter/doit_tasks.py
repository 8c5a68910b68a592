"""Step → doit's task, as the dictionary that doit wants."""

from __future__ import annotations

from collections.abc import Iterator

from tvmbuild.base.steps import AnyStep, Settings
from tvmbuild.doit_adapter.actions import clean_step, refuse_step, run_step, write_reports
from tvmbuild.doit_adapter.uptodate import UpToDate
from tvmbuild.engine.executor import Executor
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.stages.table import stage_planner
from tvmbuild.stages.table import STAGES

TaskDict = dict[str, object]


def list_tasks(plan: Plan, settings: Settings, executor: Executor) -> Iterator[TaskDict]:
    """Yield a group for each stage, then a subtask for each step, which the executor runs."""
    for stage in STAGES:
        yield {"basename": stage.name, "name": None, "doc": stage_planner(stage.name).about}
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
        "doc": stage_planner(step.stage).describe(step),
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
