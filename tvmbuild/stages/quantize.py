"""The stage quantize:M: convert the simplified model to 8-bit integers, and compute its reference outputs."""

from __future__ import annotations

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.steps import CALIBRATION, QuantizeStep, Step, list_sample_files
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import open_samples
from tvmbuild.preparing.quantise import quantise
from tvmbuild.preparing.reference import read_reference, write_reference


def run(step: Step[QuantizeStep]) -> None:
    """Publish model.onnx, reference.npz (the quantised model's outputs) and quantize.json."""
    options, reference = step.options, read_reference(step.input("reference"))
    tensors = tuple(TensorInfo(name, value.shape, str(value.dtype)) for name, value in reference.inputs.items())
    paths = list_sample_files(step, CALIBRATION)
    with device_lock("local", exclusive=False):
        samples = open_samples(
            options.quantize.calibration, paths, ModelInputs(options.model, tensors, options.preprocess)
        )
        made = quantise(step.input("model").read_bytes(), reference, options.quantize, samples, options.model)
    write_bytes(step.output("model"), made.model)
    write_reference(step.output("reference"), made.reference)
    write_json(step.output("info"), made.to_json())
