"""The conversion of both YAML files to a Project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmbuild.base.layout import MODELS_YAML, TARGETS_YAML
from tvmbuild.base.specs import Project
from tvmbuild.config.cache import make_cache
from tvmbuild.config.document import Document, read_document
from tvmbuild.config.keep import check_kept
from tvmbuild.config.mistakes import Mistake
from tvmbuild.config.models import make_models
from tvmbuild.config.quantize import check_quantised
from tvmbuild.config.schema import check_schema
from tvmbuild.config.target_lock import Questions
from tvmbuild.config.targets import find_questions, list_target_data, make_targets, spread_precisions
from tvmbuild.errors import TvmbuildError

HINT = "`tvmbuild schema models` and `tvmbuild schema targets` print every key."


def load_project(root: Path) -> Project:
    """Return both files as values. Raises one TvmbuildError that lists every mistake of both.

    This reads the YAML files and the targets' locks, checks whether sources exist, and does not import tvm.
    """
    project, _ = _load(root)
    return project


def load_questions(root: Path) -> dict[str, Questions]:
    """Return the settings that each target leaves to its lock file; most targets leave none.

    Raises TvmbuildError as `load_project` does.
    """
    _, document = _load(root)
    return {name: find_questions(data) for name, data in document.data["targets"].items()}


def load_targets(root: Path) -> dict[str, dict[str, Any]]:
    """Return the targets of targets.yaml as plain data, each with the file's defaults. models.yaml is not read.

    Raises TvmbuildError as `load_project` does.
    """
    document = _read(root.absolute(), TARGETS_YAML, "targets")
    make_targets(document, root.absolute())
    _refuse_mistakes(document)
    return list_target_data(document)


def _load(root: Path) -> tuple[Project, Document]:
    root = root.absolute()
    models_document = _read(root, MODELS_YAML, "models")
    targets_document = _read(root, TARGETS_YAML, "targets")
    targets = make_targets(targets_document, root)
    models = make_models(models_document, root, _names(targets_document))
    if not targets_document.mistakes:
        check_quantised(models_document, models, targets)
        check_kept(models_document, models, targets)
    cache = make_cache(targets_document, root)
    _refuse_mistakes(models_document, targets_document)
    return Project(root, models, targets, cache), targets_document


def _refuse_mistakes(*documents: Document) -> None:
    mistakes = [str(mistake) for document in documents for mistake in _sort(document.mistakes)]
    if mistakes:
        raise TvmbuildError("\n".join(mistakes), HINT)


def _read(root: Path, file: str, name: str) -> Document:
    document = read_document(root / file, file)
    if document.data is not None or not document.mistakes:
        check_schema(document, name)
    return document


def _names(document: Document) -> tuple[str, ...]:
    targets = document.data.get("targets") if isinstance(document.data, dict) else None
    if not isinstance(targets, dict):
        return ()
    return tuple(each for name, own in targets.items() for each in _spread(name, own))


def _spread(name: str, own: object) -> tuple[str, ...]:
    """Return the names of the entry's targets, also if the entry has mistakes."""
    listed = isinstance(own, dict) and isinstance(own.get("precision"), list)
    return tuple(spread_precisions(name, own)) if listed and isinstance(own, dict) else (name,)


def _sort(mistakes: list[Mistake]) -> list[Mistake]:
    """Return the mistakes in the file's order, one for each place and cause, because an anchor is read at every use."""
    ordered = sorted(mistakes, key=lambda mistake: (mistake.position, str(mistake)), reverse=True)
    unique = {(mistake.position, mistake.what, mistake.expected): mistake for mistake in ordered}
    return list(reversed(unique.values()))
