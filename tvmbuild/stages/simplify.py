"""The stage simplify:M: fetch and check the source, fix shapes, simplify, and prove that the outputs are unchanged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tvmbuild.base.files import canonical_json, sha256_file, write_bytes, write_json
from tvmbuild.base.progress import report_progress
from tvmbuild.base.size_specs import SIZES, Size, Sizes
from tvmbuild.base.specs import fix_inputs_at
from tvmbuild.base.steps import SimplifyStep, Step
from tvmbuild.devices.lock import device_lock
from tvmbuild.preparing.model_file import read_model
from tvmbuild.preparing.ranges import check_range
from tvmbuild.preparing.reference import Reference, read_reference, write_reference
from tvmbuild.preparing.simplify import Simplified, simplify
from tvmbuild.preparing.sizes import SizedModel, check_pad, find_padding
from tvmbuild.sources.export import obtain_model
from tvmbuild.stages.entries import check_model
from tvmbuild.stages.sizes import remove_other_sizes


def run(step: Step[SimplifyStep]) -> None:
    """Publish model.onnx, reference.npz (the original model's outputs) and simplify.json.

    A model whose shapes vary has the first two for each size, and sizes.json.
    """
    options = step.options
    with obtain_model(options.source, step.root) as path, device_lock("local", exclusive=False):
        source_sha256 = sha256_file(path)
        several = options.sizes is not None
        simplified = simplify(path, options.inputs, options.simplify, options.model, of_several_sizes=several)
        check_model(simplified.model, options.model, options)
        if options.sizes is not None:
            _prepare_sizes(step, options.sizes, path, simplified)
        else:
            remove_other_sizes(step.output("model"), ())
    write_bytes(step.output("model"), simplified.model)
    write_reference(step.output("reference"), simplified.reference)
    write_json(step.output("info"), {**simplified.to_json(), "source_sha256": source_sha256})


def _prepare_sizes(step: Step[SimplifyStep], sizes: Sizes, path: Path, largest: Simplified) -> None:
    """Simplify the model at its other sizes, and find out along which letters inputs may be padded."""
    options, references = step.options, dict[Size, Reference]()
    check_pad(sizes, largest.inputs, options.model)
    more = (*sizes.others, *sizes.trials)
    source = read_model(path, options.model).SerializeToString(deterministic=True) if more else b""
    told = [hashlib.sha256(source).hexdigest(), sorted(step.tools.items()), sorted(step.environment.items())]
    for size in more:
        inputs = fix_inputs_at(options.inputs, sizes, size)
        name = f"{options.model} at {size.name}"
        kept = _Kept(step, size, canonical_json([*told, repr(inputs), repr(options.simplify), step.version]))
        if not kept.is_complete():
            report_progress(f"simplifying {size.name}")
            kept.write(simplify(path, inputs, options.simplify, name, of_several_sizes=True))
        if options.frames or options.postprocess:
            check_model(kept.model.read_bytes(), name, options)
        references[size] = read_reference(kept.reference)
    remove_other_sizes(step.output("model"), [size.name for size in more])
    references[sizes.choices[-1]] = largest.reference
    model = SizedModel(path, options.model, options.inputs, sizes, options.simplify)
    if sizes.range is not None:
        graphs = {size: step.output(size.role("model")).read_bytes() for size in more}
        graphs[sizes.choices[-1]] = largest.model
        check_range(model, sizes.range, graphs, references)
    write_json(step.output(SIZES), find_padding(model, references).to_json())


class _Kept:
    """The files of a size, which stay if they were made from the same inputs."""

    def __init__(self, step: Step[SimplifyStep], size: Size, made_of: str) -> None:
        self.model, self.reference = step.output(size.role("model")), step.output(size.role("reference"))
        self._note = self.model.with_name("made-of.json")
        self._made_of = hashlib.sha256(made_of.encode()).hexdigest()

    def is_complete(self) -> bool:
        """Return whether the files are those that `write` has written for the same inputs."""
        try:
            return bool(json.loads(self._note.read_text(encoding="utf-8")) == self._describe())
        except (OSError, ValueError):
            return False

    def write(self, made: Simplified) -> None:
        """Write the files, and last the note about them."""
        write_bytes(self.model, made.model)
        write_reference(self.reference, made.reference)
        write_json(self._note, self._describe())

    def _describe(self) -> dict[str, str]:
        files = {path.name: sha256_file(path) for path in (self.model, self.reference)}
        return {"made of": self._made_of, **files}
