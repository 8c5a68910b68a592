"""The stage quantize:M: convert the simplified model to 8-bit integers, and compute its reference outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx

from tvmbuild.base.files import write_bytes, write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import Sizes
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
from tvmbuild.benchmarking.keeping import Keeping, digest_step
from tvmbuild.compiler.importing.reading import name_nodes
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import Samples, crop_samples, list_samples, open_samples
from tvmbuild.preparing.keep.control import Control
from tvmbuild.preparing.node_words import list_matches
from tvmbuild.preparing.quantise import FloatModel, Guard, Quantised, quantise
from tvmbuild.preparing.ranges import prove_graphs
from tvmbuild.preparing.reference import read_reference, write_reference
from tvmbuild.preparing.sizes import find_axes, list_shapes
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
        largest = quantise(given, options.quantize, samples, _make_guard(step, takes, samples))
        others = {size: _quantise_at(step, size, samples, largest) for size in list_sizes(step, "model")}
        if options.sizes is not None:
            _prove(options.model, options.sizes, {**others, options.sizes.choices[-1].name: largest})
    for size, made in others.items():
        write_bytes(step.output(f"model {size}"), made.model)
        write_reference(step.output(f"reference {size}"), made.reference)
    remove_other_sizes(step.output("model"), others)
    write_bytes(step.output("model"), largest.model)
    write_reference(step.output("reference"), largest.reference)
    told = {size: {"error": made.error, "in_floats": list(made.in_floats)} for size, made in others.items()}
    write_json(step.output("info"), {**largest.to_json(), **({"sizes": told} if told else {})})


def _prove(name: str, sizes: Sizes, made: Mapping[str, Quantised]) -> None:
    """Raise TvmbuildError unless the quantised models of all batches compute each row by itself, and the same of it."""
    named = {size.name: size for size in (*sizes.choices, *sizes.trials)}
    references = {named[each]: quantised.reference for each, quantised in made.items()}
    graphs = {named[each]: quantised.model for each, quantised in made.items()}
    prove_graphs(f"{name}, quantised", sizes, graphs, find_axes(list_shapes(references)))


def _quantise_at(step: Step[QuantizeStep], size: str, samples: Samples, largest: Quantised) -> Quantised:
    """Quantise the model at another size than the largest, whose ``samples`` are given.

    Operators that the largest keeps in floats stay in floats. In a range, the constants are those of the largest.
    """
    report_progress(f"quantising {size}")
    given, takes = _read(step, size)
    options = step.options.quantize
    if options.exclude:  # an operator that the larger shapes need may be folded away at smaller ones
        proto = onnx.load_model_from_string(given.data)
        name_nodes(proto)
        options = replace(options, exclude=tuple(word for word in options.exclude if list_matches(proto, word)))
    if options.calibration.kind == "images":
        samples = open_samples(options.calibration, list_sample_files(step, CALIBRATION), takes)
    else:
        samples = crop_samples(samples, takes)
    choose = largest.choice.follow if largest.choice else None
    like = None if step.options.sizes is None else onnx.load_model_from_string(largest.model)
    return quantise(given, options, samples, Guard(choose=choose, like=like, is_of_largest=False))


def _read(step: Step[QuantizeStep], size: str) -> tuple[FloatModel, ModelInputs]:
    """Return the float model at a size, and its inputs. An empty ``size`` stands for the largest."""
    name = f"{step.options.model} at {size}" if size else step.options.model
    reference = read_reference(step.input(f"reference {size}" if size else "reference"))
    tensors = tuple(TensorInfo(key, value.shape, str(value.dtype)) for key, value in reference.inputs.items())
    takes = ModelInputs(name, tensors, step.options.preprocess)
    return FloatModel(find_model(step, size).read_bytes(), reference, name), takes


def _make_guard(step: Step[QuantizeStep], takes: ModelInputs, samples: Samples) -> Guard:
    """Return the real inputs that the model names, and the way to keep its accuracy if it asks for one."""
    accuracy, model, quantize = step.options.accuracy, step.options.model, step.options.quantize
    if accuracy is None:
        return Guard()
    files = list_sample_files(step)
    judged = list_samples(accuracy, files, takes)
    if not (quantize.keep or quantize.accuracy_control):
        return Guard(judged)
    judge = make_judge(accuracy, takes, find_original(step), files, step.root)
    keeping = Keeping(model, accuracy, judge, samples, Layout(step.root).kept("int8", digest_step(step)))
    if quantize.keep:
        return Guard(judged, choose=keeping.choose)
    ranked = list(judged)
    return Guard(ranked, control=Control(keeping.judge_run, ranked))
