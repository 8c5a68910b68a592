"""doit's up-to-date check of one step."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.base.steps import AnyStep
from tvmbuild.doit_adapter.state import find_success
from tvmbuild.engine.staleness import explain_changes


class UpToDate:
    """A callable of doit's; its repr, which `doit info` prints, says what changed, from what to what."""

    def __init__(self, step: AnyStep) -> None:
        self._step = step
        self.reasons: tuple[str, ...] = ()

    def __call__(self, task: object, values: Mapping[str, object]) -> bool:  # noqa: ARG002 - doit passes by name
        """Say whether the step needs not run, given the values that doit kept of its last success."""
        self.reasons = tuple(explain_changes(self._step, find_success(values)))
        return not self.reasons

    def __repr__(self) -> str:
        """Return the reasons that the last call found."""
        return "; ".join(self.reasons) or "up to date"
