"""The stage keep:M@T: choose the operators that stay in float32 in the target's precision of shorter floats."""

from __future__ import annotations

from tvmbuild.base.files import write_json
from tvmbuild.base.kept_nodes import KEPT
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Accuracy
from tvmbuild.base.steps import KeepStep, Step, find_original, list_sample_files
from tvmbuild.base.wording import count, name_some
from tvmbuild.benchmarking.accuracy import make_judge
from tvmbuild.benchmarking.keeping import Keeping, digest_step
from tvmbuild.compiler.importing.reading import name_nodes, tidy
from tvmbuild.devices.lock import device_lock
from tvmbuild.package.metadata import ModelInputs, TensorInfo
from tvmbuild.package.samples import list_samples
from tvmbuild.preparing.keep.choose import Choice
from tvmbuild.preparing.keep.rounded import RoundedModel
from tvmbuild.preparing.node_words import find_nodes
from tvmbuild.preparing.onnx_graph import load_model
from tvmbuild.preparing.reference import read_reference


def run(step: Step[KeepStep]) -> None:
    """Publish kept.json: the names of the nodes, and the notes of the report.

    A choice that a search has found is kept in the project's records.
    """
    options = step.options
    proto = load_model(step.input("model"), options.model)
    name_nodes(proto)  # before nodes become constants, as the importer does
    tidy(proto)
    found = find_nodes(proto, options.keep.words, options.model, "`keep:`")
    named = RoundedModel(proto, options.precision).list_keepable(found)
    rounded = RoundedModel(proto, options.precision, frozenset(named))
    choice = None if options.accuracy is None else _search(step, rounded, options.accuracy)
    nodes = sorted({*named, *(choice.nodes if choice else ())})
    write_json(
        step.output(KEPT),
        {
            "format": 1,
            "precision": options.precision,
            "nodes": nodes,
            **({} if choice is None else {"kept": choice.to_json()}),
            "notes": [*_describe(named, found), *([choice.describe()] if choice else [])],
        },
    )


def _search(step: Step[KeepStep], rounded: RoundedModel, accuracy: Accuracy) -> Choice:
    options, reference = step.options, read_reference(step.input("reference"))
    tensors = tuple(TensorInfo(name, value.shape, str(value.dtype)) for name, value in reference.inputs.items())
    takes, files = ModelInputs(options.model, tensors, options.preprocess), list_sample_files(step)
    judge = make_judge(accuracy, takes, find_original(step), files, step.root)
    samples = list_samples(accuracy, files, takes)
    known = Layout(step.root).kept(options.precision, digest_step(step))
    with device_lock("local", exclusive=False):
        return Keeping(options.model, accuracy, judge, samples, known).choose(rounded)


def _describe(named: tuple[str, ...], found: tuple[str, ...]) -> list[str]:
    if not found:
        return []
    if not named:
        return ["`keep:` names no convolution, matrix product or recurrent layer, and tf32 rounds nothing else"]
    return [f"`keep:` names {count(len(named), 'operator')} that stay in float32: {name_some(named)}"]
