"""The planning of the stage that fetches, checks and simplifies a model."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.specs import ModelSpec
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.planning.stages.planner import StageOfModels
from tvmbuild.planning.stages.tools import list_versions
from tvmbuild.planning.subject import Subject


class Simplify(StageOfModels):
    """The planner of the simplify stage, the first stage of every model."""

    about = "fetch, check and simplify every model"

    def make_options(self, subject: Subject, _capabilities: Capabilities) -> SimplifyStep:
        """Return the model's name, source, inputs and options of simplification."""
        model = subject.model
        entries = (model.preprocess, model.frames, model.postprocess)
        return SimplifyStep(model.name, model.source, model.inputs, model.simplify, *entries, model.sizes)

    def list_more_inputs(self, subject: Subject, root: Path, _options: SimplifyStep) -> dict[str, Path]:
        """Return role → path of the project's files among the arguments of an export. The role is `argument NAME`."""
        export = subject.model.source.export
        files = export.files if export else ()
        return {f"argument {file.name}": root / file.source.location for file in files if file.source.kind == "path"}

    def list_tools(self, subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of the ONNX libraries, and of the libraries that read and run another file format."""
        others = (name for reader in subject.model.source.list_readers() for name in reader.distributions)
        return list_versions(capabilities, "onnx", "onnxsim", "onnxruntime", *others)

    def list_environment(self, _subject: Subject) -> dict[str, str]:
        """Return an empty dict, because no kernel runs."""
        return {}

    def explain_model(self, model: ModelSpec, capabilities: Capabilities) -> str | None:
        """Return which library of the source is missing, with the remedy, or None if all are installed."""
        missing = ((extra, capabilities.find_missing(extra)) for extra in model.source.list_extras())
        return next((extra.explain(name) for extra, name in missing if name is not None), None)

    def describe(self, step: Step[SimplifyStep]) -> str:
        """Return the purpose of the step, which names the model."""
        return f"fetch, check and simplify {step.model}"
