"""The planning of the stage that checks a cell's outputs, which are computed on this machine."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import Step, ValidateStep
from tvmbuild.planning.stages.planner import StageOfCells
from tvmbuild.planning.stages.samples import list_judging_files
from tvmbuild.planning.stages.threads import list_thread_variables
from tvmbuild.planning.stages.tools import list_code_generator, list_versions
from tvmbuild.planning.subject import Subject
from tvmbuild.targets.table import target_kind


class Validate(StageOfCells):
    """The planner of the validate stage, for packages that cannot run on their target's device from here."""

    about = "compare the numbers of packages whose device is not here, computed on this machine"

    def make_options(self, subject: Subject, capabilities: Capabilities) -> ValidateStep:
        """Return the options that can change the outputs, and their tolerances."""
        target, model = subject.require_target(), subject.model
        pictures = model.accuracy is not None and model.accuracy.kind == "images"
        return ValidateStep(
            target=target.name,
            kind=target.kind,
            attributes=target.attributes,
            host=target.host,
            tolerance=model.tolerance_in(target.precision),
            precision=target.precision,
            stand_in=_find_stand_in(target, capabilities),
            accuracy=model.accuracy,
            preprocess=model.preprocess if pictures else None,
        )

    def list_more_inputs(self, subject: Subject, root: Path, options: ValidateStep) -> dict[str, Path]:
        """Return role → file for the real inputs, and for the package if a device of this machine runs it."""
        samples = list_judging_files(subject, root)
        if options.stand_in is None:
            return samples
        return {"package": Layout(root).package(subject.model.name, subject.require_target().name), **samples}

    def list_tools(self, subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of the tools that compute the outputs."""
        originals = list_versions(capabilities, "onnxruntime") if subject.model.accuracy else {}
        return {**list_code_generator(capabilities), **originals}

    def list_environment(self, subject: Subject) -> dict[str, str]:
        """Return the variable for the target's number of threads."""
        target = subject.require_target()
        return list_thread_variables(target, target.num_cores)

    def explain(self, target: TargetSpec, capabilities: Capabilities) -> str | None:
        """Return why no code can be generated, or None if it can."""
        return target_kind(target.kind).explain_codegen(capabilities)

    def describe(self, step: Step[ValidateStep]) -> str:
        """Return the purpose of the step, which names the cell."""
        where = "on this CPU" if step.options.stand_in is None else "here"
        return f"compute {step.subject} {where} and compare its numbers"


def _find_stand_in(target: TargetSpec, capabilities: Capabilities) -> str | None:
    """Return this machine's device that can run the target's packages with their host code, or None.

    The number of threads does not matter.
    """
    host = FrozenMap((name, value) for name, value in target.cpu.items() if name != "num-cores")
    if target_kind("llvm").explain_here(host, capabilities) is not None:
        return None
    return target_kind(target.kind).find_stand_in(capabilities)
