"""What doit would do with a step, and why, without running doit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from tvmbuild.doit_adapter.state import StepState
from tvmbuild.doit_adapter.uptodate import explain_changes
from tvmbuild.layout import Layout
from tvmbuild.plan import Plan
from tvmbuild.specs import Step


@dataclass(frozen=True)
class Status:
    """Whether a step would run, as far as its own files tell; a step before it may still change them."""

    step: Step
    state: Literal["up to date", "would run", "unavailable"]
    reasons: tuple[str, ...] = ()


def list_statuses(plan: Plan) -> list[Status]:
    """Return every step's status in the plan's order."""
    state = StepState(str(Layout(plan.root).state))
    return [_status(step, state) for step in plan.steps]


def _status(step: Step, state: StepState) -> Status:
    if step.unavailable is not None:
        return Status(step, "unavailable", (step.unavailable,))
    values = cast("Mapping[str, object]", state.get(step.id, "_values_:") or {})
    reasons = tuple(explain_changes(step, values))
    return Status(step, "would run" if reasons else "up to date", reasons)
