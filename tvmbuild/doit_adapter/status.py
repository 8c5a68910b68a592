"""What doit would do with a step, and why, without running doit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from tvmbuild.doit_adapter.state import StepState
from tvmbuild.doit_adapter.uptodate import are_tasks_known, explain_changes
from tvmbuild.layout import Layout
from tvmbuild.plan import Plan
from tvmbuild.steps import AnyStep

State = Literal["up to date", "may run", "would run", "unavailable"]


@dataclass(frozen=True)
class Status:
    """What a run would do with a step."""

    step: AnyStep
    state: State
    """``may run``: its own files are as it left them, but a step before it runs and may change them."""
    reasons: tuple[str, ...] = ()
    knows_tasks: bool = False
    """A tune step's `tasks.json` lists the Tasks that a run would find."""


def list_statuses(plan: Plan) -> list[Status]:
    """Return every step's status in the plan's order."""
    state = StepState(str(Layout(plan.root).state))
    running: dict[Path, AnyStep] = {}
    statuses = []
    for step in plan.steps:
        causes = {running[path].id: None for path in step.inputs.values() if path in running}
        status = _status(step, state, tuple(causes))
        if status.state in {"may run", "would run"}:
            running |= dict.fromkeys(step.outputs.values(), step)
        statuses.append(status)
    return statuses


def _status(step: AnyStep, state: StepState, causes: tuple[str, ...]) -> Status:
    if step.unavailable is not None:
        return Status(step, "unavailable", (step.unavailable,))
    values = cast("Mapping[str, object]", state.get(step.id, "_values_:") or {})
    reasons = tuple(explain_changes(step, values))
    # What simplify will make of the model is not known before it has run.
    knows_tasks = step.stage == "tune" and not causes and are_tasks_known(step, values)
    if not reasons and causes:
        return Status(step, "may run", (f"if {' or '.join(causes)} changes what it reads",), knows_tasks)
    return Status(step, "would run" if reasons else "up to date", reasons, knows_tasks)
