"""The planning of the stage that chooses the operators of a cell that stay in float32."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import Keep as KeepSpec
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import KeepStep, Step
from tvmbuild.planning.stages.planner import StageOfCells
from tvmbuild.planning.stages.samples import list_judging_files
from tvmbuild.planning.stages.tools import list_versions
from tvmbuild.planning.subject import Subject


class Keep(StageOfCells):
    """The planner of the keep stage, for cells of shorter floats whose model has `keep:`."""

    about = "choose the operators that stay in float32 on the targets of the precisions fp16, bf16 and tf32"

    def make_options(self, subject: Subject, _capabilities: Capabilities) -> KeepStep:
        """Return the named operators, and for a search the accuracy that it must keep."""
        model, keep = subject.model, subject.model.keep or KeepSpec()
        accuracy = model.accuracy if keep.search else None
        pictures = accuracy is not None and accuracy.kind == "images"
        precision = subject.require_target().precision
        return KeepStep(model.name, precision, keep, model.preprocess if pictures else None, accuracy)

    def list_more_inputs(self, subject: Subject, root: Path, options: KeepStep) -> dict[str, Path]:
        """Return role → file for the real inputs that judge a search."""
        return list_judging_files(subject, root) if options.accuracy else {}

    def list_tools(self, _subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of the libraries that run the model."""
        return list_versions(capabilities, "onnx", "onnxruntime")

    def list_environment(self, _subject: Subject) -> dict[str, str]:
        """Return an empty dict, because no kernel runs."""
        return {}

    def explain(self, _target: TargetSpec, _capabilities: Capabilities) -> None:
        """Return None, because ONNX Runtime computes everything here."""

    def describe(self, step: Step[KeepStep]) -> str:
        """Return the purpose of the step, which names the model and the precision."""
        how = "search for" if step.options.keep.search else "find"
        return f"{how} the operators of {step.model} that stay in float32 in {step.options.precision}"
