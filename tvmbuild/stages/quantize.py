"""The stage quantize:M: convert the simplified model to 8-bit integers, and compute its reference outputs."""

from __future__ import annotations

import hashlib

from tvmbuild.base.files import canonical_json, sha256_file, write_bytes, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import (
    CALIBRATION,
    QuantizeStep,
    Step,
    find_model,
    find_original,
    list_sample_files,
    list_sizes,
)
from tvmbuild.benchmarking.accuracy import make_judge
from tvmbuild.benchmarking.keeping import Keeping
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import Samples, crop_samples, open_samples
from tvmbuild.preparing.quantise import Choose, FloatModel, Quantised, quantise
from tvmbuild.preparing.reference import read_reference, write_reference
from tvmbuild.stages.sizes import remove_other_sizes


def run(step: Step[QuantizeStep]) -> None:
    """Publish model.onnx, reference.npz (the quantised model's outputs) and quantize.json.

    A model whose shapes vary has the first two for each size. If operators are to stay in floats by search, the choice
    is kept in the project's records.
    """
    options = step.options
    given, takes = _read(step, "")
    with device_lock("local", exclusive=False):
        samples = open_samples(options.quantize.calibration, list_sample_files(step, CALIBRATION), takes)
        keeping = _make_keeping(step, takes, samples)
        largest = quantise(given, options.quantize, samples, keeping.choose if keeping else None)
        choose = keeping.follow(largest.choice) if keeping and largest.choice else None
        others = {size: _quantise_at(step, size, samples, choose) for size in list_sizes(step, "model")}
    for size, made in others.items():
        write_bytes(step.output(f"model {size}"), made.model)
        write_reference(step.output(f"reference {size}"), made.reference)
    remove_other_sizes(step.output("model"), others)
    write_bytes(step.output("model"), largest.model)
    write_reference(step.output("reference"), largest.reference)
    told = {size: {"error": made.error, "in_floats": list(made.in_floats)} for size, made in others.items()}
    write_json(step.output("info"), {**largest.to_json(), **({"sizes": told} if told else {})})


def _quantise_at(step: Step[QuantizeStep], size: str, samples: Samples, choose: Choose | None) -> Quantised:
    """Quantise the model at a smaller size. ``samples`` are those of the largest."""
    report_progress(f"quantising {size}")
    given, takes = _read(step, size)
    options = step.options.quantize
    if options.calibration.kind == "images":
        samples = open_samples(options.calibration, list_sample_files(step, CALIBRATION), takes)
    else:
        samples = crop_samples(samples, takes)
    return quantise(given, options, samples, choose)


def _read(step: Step[QuantizeStep], size: str) -> tuple[FloatModel, ModelInputs]:
    """Return the float model at a size, and its inputs. An empty ``size`` stands for the largest."""
    name = f"{step.options.model} at {size}" if size else step.options.model
    reference = read_reference(step.input(f"reference {size}" if size else "reference"))
    tensors = tuple(TensorInfo(key, value.shape, str(value.dtype)) for key, value in reference.inputs.items())
    takes = ModelInputs(name, tensors, step.options.preprocess)
    return FloatModel(find_model(step, size).read_bytes(), reference, name), takes


def _make_keeping(step: Step[QuantizeStep], takes: ModelInputs, samples: Samples) -> Keeping | None:
    """Return the search for operators that stay in floats, or None if the model asks for none."""
    accuracy, model = step.options.accuracy, step.options.model
    if accuracy is None:
        return None
    judge = make_judge(accuracy, takes, find_original(step), list_sample_files(step), step.root)
    known = Layout(step.root).kept("int8", _digest(step))
    return Keeping(model, accuracy, judge, samples, known)


def _digest(step: Step[QuantizeStep]) -> str:
    """Return a short digest of all that the step declares: files, options, and the versions of tools."""
    files = {role: sha256_file(path) for role, path in step.inputs.items() if role != "reference"}
    told = canonical_json([files, repr(step.options), sorted(step.tools.items()), step.version])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
