"""The stage that compares a cell's numbers, computed by this CPU."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import Step, ValidateStep
from tvmbuild.planning.stages.threads import list_thread_variables
from tvmbuild.planning.stages.tools import list_code_generator
from tvmbuild.planning.subject import Subject
from tvmbuild.targets.table import target_kind


class Validate:
    """It takes no device: it is for packages that cannot run here."""

    about = "compare the numbers of packages that cannot run here, computed by this CPU"

    def make_options(self, subject: Subject) -> ValidateStep:
        """Return what changes numbers, and how far they may be off."""
        target = subject.require_target()
        return ValidateStep(
            target=target.name,
            kind=target.kind,
            attributes=target.attributes,
            host=target.host,
            tolerance=subject.model.tolerance_in(target.precision),
            precision=target.precision,
        )

    def list_more_inputs(self, _subject: Subject, _root: Path) -> dict[str, Path]:
        """Return none."""
        return {}

    def list_tools(self, _subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return what computes the numbers."""
        return list_code_generator(capabilities)

    def list_environment(self, subject: Subject) -> dict[str, str]:
        """Return the target's threads."""
        target = subject.require_target()
        return list_thread_variables(target, target.num_cores)

    def explain(self, target: TargetSpec, capabilities: Capabilities) -> str | None:
        """Ask for the code generator alone."""
        return target_kind(target.kind).explain_codegen(capabilities)

    def list_needs(self, _step: Step[ValidateStep], subject: Subject, _host_cpu: str) -> dict[str, int] | None:
        """Return what generating code takes, down to no machine code of a GPU."""
        return target_kind(subject.require_target().kind).list_build_needs(compiles=False)

    def describe(self, step: Step[ValidateStep]) -> str:
        """Name the cell."""
        return f"compute {step.subject} on this CPU and compare its numbers"
