"""The stage quantize:M: convert the simplified model to 8-bit integers, and compute its reference outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Accuracy
from tvmbuild.base.steps import CALIBRATION, QuantizeStep, Step, find_original, list_sample_files
from tvmbuild.benchmarking.accuracy import Arrays, make_judge, name_samples
from tvmbuild.benchmarking.keeping import Keeping, digest_step
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import Samples, open_samples
from tvmbuild.preparing.keep.control import Control
from tvmbuild.preparing.quantise import FloatModel, Guard, quantise
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
        guard = _make_guard(step, takes, samples)
        given = FloatModel(step.input("model").read_bytes(), reference, options.model)
        made = quantise(given, options.quantize, samples, guard)
    write_bytes(step.output("model"), made.model)
    write_reference(step.output("reference"), made.reference)
    write_json(step.output("info"), made.to_json())


def _make_guard(step: Step[QuantizeStep], takes: ModelInputs, samples: Samples) -> Guard:
    """Return the real inputs that the model names, and the way to keep its accuracy if it asks for one."""
    accuracy, model, quantize = step.options.accuracy, step.options.model, step.options.quantize
    if accuracy is None:
        return Guard()
    files = list_sample_files(step)
    judged = _Judged(accuracy, files, takes)
    if not (quantize.keep or quantize.accuracy_control):
        return Guard(judged)
    judge = make_judge(accuracy, takes, find_original(step), files, step.root)
    keeping = Keeping(model, accuracy, judge, samples, Layout(step.root).kept("int8", digest_step(step)))
    if quantize.keep:
        return Guard(judged, choose=keeping.choose)
    return Guard(judged, control=Control(keeping.judge_run, list(judged)))


@dataclass(frozen=True)
class _Judged:
    """The samples that judge the accuracy, read anew by each walk."""

    accuracy: Accuracy
    files: Sequence[Path]
    takes: ModelInputs

    def __iter__(self) -> Iterator[Arrays]:
        return (inputs for _, inputs in name_samples(self.accuracy, self.files, self.takes))
