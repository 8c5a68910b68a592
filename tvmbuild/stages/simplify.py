"""The stage simplify:M: fetch and check the source, fix shapes, simplify, and prove that the outputs are unchanged."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.files import sha256_file, write_bytes, write_json
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import SIZES, Size, Sizes
from tvmbuild.base.specs import fix_inputs_at
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.compiler.entries import check_entries
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.devices.lock import device_lock
from tvmbuild.errors import TvmbuildError
from tvmbuild.preparing.reference import Reference, write_reference
from tvmbuild.preparing.simplify import Simplified, simplify
from tvmbuild.preparing.sizes import SizedModel, find_padding
from tvmbuild.sources.export import obtain_model


def run(step: Step[SimplifyStep]) -> None:
    """Publish model.onnx, reference.npz (the original model's outputs) and simplify.json.

    A model whose shapes vary has the first two for each size, and sizes.json.
    """
    options = step.options
    with obtain_model(options.source, step.root) as path, device_lock("local", exclusive=False):
        source_sha256 = sha256_file(path)
        simplified = simplify(path, options.inputs, options.simplify, options.model)
        imported = _check_operators(simplified.model, options.model)
        entries = EntryOptions(options.preprocess, options.frames, options.postprocess)
        check_entries(Interface(options.model, imported.inputs, imported.outputs), entries)
        if options.sizes is not None:
            _prepare_sizes(step, options.sizes, path, simplified)
    write_bytes(step.output("model"), simplified.model)
    write_reference(step.output("reference"), simplified.reference)
    write_json(step.output("info"), {**simplified.to_json(), "source_sha256": source_sha256})


def _prepare_sizes(step: Step[SimplifyStep], sizes: Sizes, path: Path, largest: Simplified) -> None:
    """Simplify the model at its other sizes, and find out along which letters inputs may be padded."""
    options, references = step.options, dict[Size, Reference]()
    for size in sizes.others:
        report_progress(f"simplifying {size.name}")
        name = f"{options.model} at {size.name}"
        made = simplify(path, fix_inputs_at(options.inputs, sizes, size), options.simplify, name)
        references[size] = made.reference
        write_bytes(step.output(size.role("model")), made.model)
        write_reference(step.output(size.role("reference")), made.reference)
    references[sizes.choices[-1]] = largest.reference
    model = SizedModel(path, options.model, options.inputs, sizes, options.simplify)
    write_json(step.output(SIZES), find_padding(model, references).to_json())


def _check_operators(model: bytes, name: str) -> ImportedModel:
    """Return the model for a target that can build it.

    Raises TvmbuildError if it has operators that no target can build: once, not for each of its cells.
    """
    report_progress("looking for operators that cannot be built")
    try:
        return import_onnx(model, name)
    except TvmbuildError:
        return import_onnx(model, name, for_gpu=True)
