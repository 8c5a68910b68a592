"""The stage quantize:M: convert the simplified model to 8-bit integers, and compute its reference outputs."""

from __future__ import annotations

from collections.abc import Iterator

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import CALIBRATION, QuantizeStep, Step, find_original, list_sample_files
from tvmbuild.benchmarking.accuracy import Arrays, make_judge, name_samples
from tvmbuild.benchmarking.keeping import Keeping, digest_step
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import Samples, open_samples
from tvmbuild.preparing.quantise import FloatModel, quantise
from tvmbuild.preparing.reference import read_reference, write_reference


def run(step: Step[QuantizeStep]) -> None:
    """Publish model.onnx, reference.npz (the quantised model's outputs) and quantize.json.

    If operators are to stay in floats by search, the choice is kept in the project's records.
    """
    options, reference = step.options, read_reference(step.input("reference"))
    tensors = tuple(TensorInfo(name, value.shape, str(value.dtype)) for name, value in reference.inputs.items())
    takes = ModelInputs(options.model, tensors, options.preprocess)
    with device_lock("local", exclusive=False):
        samples = open_samples(options.quantize.calibration, list_sample_files(step, CALIBRATION), takes)
        keeping = _make_keeping(step, takes, samples)
        given = FloatModel(step.input("model").read_bytes(), reference, options.model)
        made = quantise(
            given, options.quantize, samples, keeping.choose if keeping else None, _list_judged(step, takes)
        )
    write_bytes(step.output("model"), made.model)
    write_reference(step.output("reference"), made.reference)
    write_json(step.output("info"), made.to_json())


def _make_keeping(step: Step[QuantizeStep], takes: ModelInputs, samples: Samples) -> Keeping | None:
    """Return the search for operators that stay in floats, or None if the model asks for none."""
    accuracy, model = step.options.accuracy, step.options.model
    if accuracy is None or step.options.quantize.keep is None:
        return None
    judge = make_judge(accuracy, takes, find_original(step), list_sample_files(step), step.root)
    known = Layout(step.root).kept("int8", digest_step(step))
    return Keeping(model, accuracy, judge, samples, known)


def _list_judged(step: Step[QuantizeStep], takes: ModelInputs) -> Iterator[Arrays] | None:
    """Return the samples that judge the accuracy, or None if the model names none."""
    accuracy = step.options.accuracy
    if accuracy is None:
        return None
    return (inputs for _, inputs in name_samples(accuracy, list_sample_files(step), takes)[0])
