"""Why a step cannot run on this machine, with the remedy. Pure."""

from __future__ import annotations

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import TargetSpec
from tvmbuild.planning.stages.table import stage_planner


def explain_unavailable(stage: str, target: TargetSpec, capabilities: Capabilities) -> str | None:
    """Return why the stage cannot run for the target here, or None: it can."""
    if target.unresolved is not None:
        return target.unresolved
    return stage_planner(stage).explain(target, capabilities)
