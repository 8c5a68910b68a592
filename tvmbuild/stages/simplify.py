"""The stage simplify:M: fetch and check the source, fix shapes, simplify, and prove that the outputs are unchanged."""

from __future__ import annotations

from tvmbuild.base.files import sha256_file, write_bytes, write_json
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.compiler.entries import check_entries
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.reference import write_reference
from tvmbuild.preparing.simplify import simplify
from tvmbuild.sources.export import obtain_model


def run(step: Step[SimplifyStep]) -> None:
    """Publish model.onnx, reference.npz (the original model's outputs) and simplify.json."""
    options = step.options
    with obtain_model(options.source, step.root) as path, device_lock("local", exclusive=False):
        source_sha256 = sha256_file(path)
        simplified = simplify(path, options.inputs, options.simplify, options.model)
        imported = _check_operators(simplified.model, options.model)
        entries = EntryOptions(options.preprocess, options.frames, options.postprocess)
        check_entries(Interface(options.model, imported.inputs, imported.outputs), entries)
    write_bytes(step.output("model"), simplified.model)
    write_reference(step.output("reference"), simplified.reference)
    write_json(step.output("info"), {**simplified.to_json(), "source_sha256": source_sha256})


def _check_operators(model: bytes, name: str) -> ImportedModel:
    """Return the model for a target that can build it.

    Raises TvmbuildError if it has operators that no target can build: once, not for each of its cells.
    """
    report_progress("looking for operators that cannot be built")
    try:
        return import_onnx(model, name)
    except TvmbuildError:
        return import_onnx(model, name, for_gpu=True)
