"""The reasons why a step cannot run on this machine, with the remedy. Pure."""

from __future__ import annotations

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import TargetSpec
from tvmbuild.planning.stages.table import stage_planner
from tvmbuild.planning.subject import Subject


def explain_step(stage: str, subject: Subject, capabilities: Capabilities) -> str | None:
    """Return why the stage cannot run here for the subject (a model or a cell), or None if it can."""
    if subject.target is None:
        return stage_planner(stage).explain_model(subject.model, capabilities)
    return explain_unavailable(stage, subject.target, capabilities)


def explain_unavailable(stage: str, target: TargetSpec, capabilities: Capabilities) -> str | None:
    """Return why a stage of cells cannot run here for the target, or None if it can."""
    if target.unresolved is not None:
        return target.unresolved
    return stage_planner(stage).explain(target, capabilities)
