"""The planning of the stage that quantises a model for the targets of the precision int8."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.quantize_specs import Quantize as QuantizeSpec
from tvmbuild.base.specs import Accuracy, ModelSpec
from tvmbuild.base.steps import CALIBRATION, SAMPLE, QuantizeStep, Step
from tvmbuild.planning.stages.planner import StageOfModels
from tvmbuild.planning.stages.samples import list_judging_files
from tvmbuild.planning.stages.tools import list_versions
from tvmbuild.planning.subject import Subject

NNCF = "nncf"
"""The name of the quantisation method, and of its Python distribution."""


class Quantize(StageOfModels):
    """The planner of the quantize stage, for models that are built for a target with `precision: int8`."""

    about = "quantise the models of the targets of the precision int8"

    def make_options(self, subject: Subject, _capabilities: Capabilities) -> QuantizeStep:
        """Return the method and the options of the quantisation."""
        model, quantize = subject.model, _require(subject.model)
        accuracy = model.accuracy if _needs_thresholds(quantize) else _leave_thresholds(model.accuracy)
        kinds = {quantize.calibration.kind, *([accuracy.kind] if accuracy else [])}
        sizes = model.sizes if model.sizes is not None and model.sizes.range is not None else None
        return QuantizeStep(model.name, quantize, model.preprocess if "images" in kinds else None, accuracy, sizes)

    def list_more_inputs(self, subject: Subject, root: Path, options: QuantizeStep) -> dict[str, Path]:
        """Return role → file for the calibration samples, and for those of `accuracy:`.

        The roles of the former are `calibration 0`, `calibration 1` and so on.
        """
        paths = options.quantize.calibration.paths
        judging = list_judging_files(subject, root)
        if not _needs_thresholds(options.quantize):
            judging = {role: path for role, path in judging.items() if role.startswith(SAMPLE)}
        return {**{f"{CALIBRATION}{index}": root / path for index, path in enumerate(paths)}, **judging}

    def list_tools(self, subject: Subject, capabilities: Capabilities) -> dict[str, str]:
        """Return name → version of the libraries that quantise and run the model."""
        names = {"onnx", "onnxruntime", _require(subject.model).method}
        return list_versions(capabilities, *sorted(names))

    def list_environment(self, _subject: Subject) -> dict[str, str]:
        """Return an empty dict, because no kernel runs."""
        return {}

    def explain_model(self, model: ModelSpec, capabilities: Capabilities) -> str | None:
        """Return how to install NNCF if the method needs it and it is missing, otherwise None."""
        if _require(model).method != NNCF or capabilities.version(NNCF) is not None:
            return None
        return "NNCF is not installed; `pip install 'tvmbuild[quantize]'`, or say `method: onnxruntime`"

    def describe(self, step: Step[QuantizeStep]) -> str:
        """Return the purpose of the step, which names the model and the method."""
        kept = ", and search for operators that stay in floats" if step.options.quantize.keep else ""
        return f"quantise {step.model} by {step.options.quantize.method}{kept}"


def _needs_thresholds(quantize: QuantizeSpec) -> bool:
    return bool(quantize.keep) or quantize.accuracy_control


def _leave_thresholds(accuracy: Accuracy | None) -> Accuracy | None:
    """Return the real inputs without the thresholds, which change nothing if there is no search."""
    return None if accuracy is None else Accuracy(accuracy.kind, accuracy.paths)


def _require(model: ModelSpec) -> QuantizeSpec:
    if model.quantize is None:
        raise ValueError(f"{model.name} is not to be quantised")
    return model.quantize
