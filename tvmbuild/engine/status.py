"""The status of each step of a plan: the action that a run would take, and its reasons. Nothing is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tvmbuild.base.steps import AnyStep
from tvmbuild.engine.staleness import are_tasks_known, explain_changes
from tvmbuild.engine.success import Success
from tvmbuild.planning.plan import Plan

State = Literal["up to date", "may run", "would run", "unavailable"]


@dataclass(frozen=True)
class Status:
    """The action that a run would take with a step."""

    step: AnyStep
    state: State
    """``may run`` means that its own files are unchanged, but an earlier step runs and may change its inputs."""
    reasons: tuple[str, ...] = ()
    knows_tasks: bool = False
    """True if a tune step's `tasks.json` lists the Tasks that a run would find."""


def list_statuses(plan: Plan, recall: Callable[[str], Success | None]) -> list[Status]:
    """Return every step's status in the plan's order. ``recall`` returns the last success of a step by its id."""
    running: dict[Path, AnyStep] = {}
    statuses = []
    for step in plan.steps:
        causes = {running[path].id: None for path in step.inputs.values() if path in running}
        status = _status(step, recall(step.id), tuple(causes))
        if status.state in {"may run", "would run"}:
            running |= dict.fromkeys(step.outputs.values(), step)
        statuses.append(status)
    return statuses


def _status(step: AnyStep, last: Success | None, causes: tuple[str, ...]) -> Status:
    if step.unavailable is not None:
        return Status(step, "unavailable", (step.unavailable,))
    reasons = tuple(explain_changes(step, last))
    # The result of simplify is unknown before it has run.
    knows_tasks = step.stage == "tune" and not causes and are_tasks_known(step, last)
    if not reasons and causes:
        return Status(step, "may run", (f"if {' or '.join(causes)} changes what it reads",), knows_tasks)
    return Status(step, "would run" if reasons else "up to date", reasons, knows_tasks)
