"""The check whether a model has the form of its frames, results and labels, before a search and code generation."""

from __future__ import annotations

from pathlib import Path

from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.progress import report_progress
from tvmbuild.base.steps import CompileStep, SimplifyStep, TuneStep
from tvmbuild.building.scheduling import Model
from tvmbuild.compiler.entries import check_entries
from tvmbuild.compiler.importing.importer import ImportedModel, import_onnx
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.table import check_labels
from tvmbuild.errors import TvmbuildError


def check_stated_entries(model: Path, name: str, options: TuneStep | CompileStep, labels: Path | None) -> None:
    """Check an ONNX file as `check_model` does if the step has frames or results.

    Simplify has checked those of its last run, which a changed `postprocess` does not repeat.
    """
    if options.frames or options.postprocess:
        check_model(model, name, options, labels)


def check_model(
    model: Model, name: str, options: SimplifyStep | TuneStep | CompileStep, labels: Path | None = None
) -> None:
    """Raise TvmbuildError if no target can build a model, or if it has not the form of its frames, results or labels.

    ``labels`` is a file with the names of the classes.
    """
    imported = _import_for_any(model, name)
    interface = Interface(name, imported.inputs, imported.outputs)
    entries = EntryOptions(options.preprocess, options.frames, options.postprocess)
    check_entries(interface, entries)
    if labels is not None:
        check_labels(interface, entries, read_labels(labels))


def _import_for_any(model: Model, name: str) -> ImportedModel:
    """Return the model for a target that can build it.

    Raises TvmbuildError if it has operators that no target can build: once, not for each of its cells.
    """
    report_progress("checking operators and results")
    try:
        return import_onnx(model, name)
    except TvmbuildError:
        return import_onnx(model, name, for_gpu=True)


def read_labels(path: Path) -> tuple[str, ...]:
    """Return the lines of a file with the names of classes. Raises TvmbuildError if it is not a text in UTF-8."""
    kind = recognise_wrapping(path)
    if kind is not None:
        raise TvmbuildError(f"{path} has no names of classes: it is {kind.name}", kind.remedy)
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise TvmbuildError(
            f"{path} is not text in UTF-8: {error.reason}", "correct `labels:` in models.yaml"
        ) from error
