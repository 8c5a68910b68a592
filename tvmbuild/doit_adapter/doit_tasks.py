"""The conversion of a Step to doit's task dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tvmbuild.base.steps import AnyStep, Settings
from tvmbuild.doit_adapter.actions import clean_step, refuse_step, run_step, write_reports
from tvmbuild.doit_adapter.state import find_success
from tvmbuild.engine.executor import Executor
from tvmbuild.engine.staleness import explain_changes
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.stages.table import stage_planner
from tvmbuild.stages.table import STAGES

TaskDict = dict[str, object]


def list_tasks(plan: Plan, settings: Settings, executor: Executor) -> Iterator[TaskDict]:
    """Yield doit's tasks: a group for each stage, the report, and a subtask for each step, which the executor runs."""
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
    # Relative paths, so that the state stays true when the project is moved, and `doit build/…/x.tar` works.
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
    """Return a task that does nothing, or fails with `strict=1`. It declares no file, so doit checks none."""
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


# doit's up-to-date check of one step.


class UpToDate:
    """The up-to-date check of one step for doit. Its repr, which `doit info` prints, lists the changes."""

    def __init__(self, step: AnyStep) -> None:
        self._step = step
        self.reasons: tuple[str, ...] = ()

    def __call__(self, task: object, values: Mapping[str, object]) -> bool:  # noqa: ARG002 - doit passes by name
        """Return whether the step is up to date, given the values that doit kept of its last success."""
        self.reasons = tuple(explain_changes(self._step, find_success(values)))
        return not self.reasons

    def __repr__(self) -> str:
        """Return the reasons that the last check found, in one line."""
        return "; ".join(self.reasons) or "up to date"
