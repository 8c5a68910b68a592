"""The conversion of a model's `keep` to Keep, and the checks that it has a use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvmbuild.base.attributes import ROUNDED
from tvmbuild.base.specs import Keep, ModelSpec, TargetSpec
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath

AUTO = "auto"
"""The word that asks for a search."""
_THRESHOLDS = frozenset({"top1", "rms", "of_largest", "drop", "at_least"})


def make_keep(model: dict[str, Any]) -> Keep | None:
    """Return the operators of a model that stay in float32, or None if it names none."""
    data = model.get("keep")
    if data is None:
        return None
    words = [data] if isinstance(data, str) else data
    return Keep(tuple(word for word in words if word != AUTO), AUTO in words)


def check_search(document: Document, path: KeyPath, own: dict[str, Any], key: tuple[str, ...]) -> None:
    """Report a search for operators without a threshold that it could keep.

    ``path`` leads to the model, whose map is ``own``, and ``key`` from there to the word `auto`.
    """
    value: Any = own
    for name in key:
        value = value.get(name) if isinstance(value, dict) else None
    wanted = value in (AUTO, True) or (isinstance(value, list) and AUTO in value)
    if not wanted or not document.is_sound((*path, key[0])) or not document.is_sound((*path, "accuracy")):
        return
    accuracy = own.get("accuracy")
    if not isinstance(accuracy, dict) or not _THRESHOLDS & accuracy.keys():
        what = "the model's `accuracy:` has no threshold that the search could keep"
        document.report_key((*path, *key), what, "top1, rms, of_largest, drop or at_least in `accuracy`")


def check_kept(document: Document, models: Iterable[ModelSpec], targets: Iterable[TargetSpec]) -> None:
    """Report models with `keep` that no target of shorter floats uses, whether enabled or not."""
    rounded = [target.name for target in targets if target.precision in ROUNDED]
    for model in models:
        if model.keep is not None and not any(model.includes(name) for name in rounded):
            what = "no target of the model has `precision: fp16`, `bf16` or `tf32`, so that all of it has float32"
            expected = "such a target in targets.yaml; for int8 there is `quantize: {keep: auto}`"
            document.report_key(("models", model.name, "keep"), what, expected)
