"""The stage that fetches, checks and simplifies a model."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import ModelSpec
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.planning.stages.planner import StageOfModels
from tvmbuild.planning.stages.tools import list_versions
from tvmbuild.planning.subject import Subject


class Simplify(StageOfModels):
    """The first stage of every model."""

    about = "fetch, check and simplify every model"

    def make_options(self, subject: Subject, _capabilities: Capabilities) -> SimplifyStep:
        """Return where the model comes from and what becomes of it."""
        model = subject.model
        return SimplifyStep(model.name, model.source, model.inputs, model.simplify)

    def list_more_inputs(self, subject: Subject, root: Path, _options: SimplifyStep) -> dict[str, Path]:
        """Return the project's own files among the arguments of an export, in the role `argument NAME`."""
        export = subject.model.source.export
        files = export.files if export else ()
        return {f"argument {file.name}": root / file.source.location for file in files if file.source.kind == "path"}

    def list_tools(self, _subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return the models' libraries."""
        return list_versions(capabilities, "onnx", "onnxsim", "onnxruntime")

    def list_environment(self, _subject: Subject) -> dict[str, str]:
        """Return none: no kernel runs."""
        return {}

    def explain_model(self, _model: ModelSpec, _capabilities: Capabilities) -> str | None:
        """Return None: what it takes is always installed."""
        return None

    def list_needs(self, step: Step[SimplifyStep], _subject: Subject, _host_cpu: str) -> dict[str, int] | None:
        """Return nothing more; an export imports what only its user has."""
        return None if step.options.source.kind == "export" else {}

    def describe(self, step: Step[SimplifyStep]) -> str:
        """Name the model."""
        return f"fetch, check and simplify {step.model}"
