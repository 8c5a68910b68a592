"""The conversion of a model's `quantize` to Quantize, and the check that some target uses it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.sequences import take_evenly
from tvmbuild.base.specs import ModelSpec, TargetSpec
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath
from tvmbuild.config.samples import find_samples


def make_quantize(root: Path, model: dict[str, Any]) -> Quantize | None:
    """Return the model's quantisation, or None if it has none."""
    data = model.get("quantize")
    if data is None:
        return None
    calibration = data["calibration"]
    (kind, paths), count = find_samples(root, calibration), int(calibration.get("count", Calibration.count))
    return Quantize(
        calibration=Calibration(kind, take_evenly(paths, count), count),
        method=data.get("method", Quantize.method),
        exclude=tuple(data.get("exclude", Quantize.exclude)),
        keep=data.get("keep"),
        accuracy_control=bool(data.get("accuracy_control", False)),
    )


def check_control(document: Document, path: KeyPath, own: dict[str, Any]) -> None:
    """Report an accuracy control by another library than NNCF, and beside a search.

    ``path`` leads to the model, whose map is ``own``.
    """
    quantize, here = own.get("quantize"), (*path, "quantize", "accuracy_control")
    if not isinstance(quantize, dict) or quantize.get("accuracy_control") is not True or not document.is_sound(here):
        return
    if quantize.get("method", Quantize.method) != "nncf":
        document.report_key(here, "accuracy control is NNCF's", "`method: nncf`, or `keep: auto`")
    if "keep" in quantize:
        document.report_key(here, "`keep: auto` searches for the same operators", "one of both")


def check_quantised(document: Document, models: Iterable[ModelSpec], targets: Iterable[TargetSpec]) -> None:
    """Report models with a quantisation that no target uses, whether enabled or not."""
    integers = [target.name for target in targets if target.precision == "int8"]
    for model in models:
        if model.quantize is not None and not any(model.includes(name) for name in integers):
            what = "the model is built for no target with `precision: int8`, so that nothing is quantised"
            document.report_key(("models", model.name, "quantize"), what, "such a target in targets.yaml")
