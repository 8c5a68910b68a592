"""The conversion of models.yaml's data to ModelSpecs, with the checks that a schema cannot make."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from tvmbuild.base.attributes import Precision
from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.base.files import canonical_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.size_specs import Sizes
from tvmbuild.base.specs import Accuracy, InputSpec, ModelSpec, SimplifyOptions, Tolerance
from tvmbuild.config.defaults import merge_maps
from tvmbuild.config.document import Document
from tvmbuild.config.keep import check_search, make_keep
from tvmbuild.config.metric import check_metric, make_metric
from tvmbuild.config.mistakes import KeyPath, show_value
from tvmbuild.config.named_files import check_file, relative_path
from tvmbuild.config.postprocess import check_frames, check_postprocess, make_frames, make_postprocess
from tvmbuild.config.quantize import check_control, make_quantize
from tvmbuild.config.samples import check_samples, find_samples
from tvmbuild.config.sizes import check_sizes, make_sizes
from tvmbuild.config.sources import check_source, make_source

_CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1}


def make_models(document: Document, root: Path, targets: Sequence[str]) -> tuple[ModelSpec, ...]:
    """Return the valid models and report the mistakes of the others.

    ``targets`` are the names of all targets, to find globs without a match. If it is empty, globs are not checked.
    """
    if not isinstance(document.data, dict):
        return ()
    defaults = document.part((), "defaults", {})
    _check_globs(document, ("defaults",), defaults, targets)
    models = document.data.get("models")
    specs = []
    for name, own in models.items() if isinstance(models, dict) else ():
        path: KeyPath = ("models", name)
        if isinstance(own, dict):
            with_enabled = {"enabled": defaults.get("enabled", True), **own}
            _check_files(document, root, path, with_enabled)
            _check_inputs(document, path, own)
            check_sizes(document, path, own)
            _check_preprocess(document, path, own)
            check_frames(document, path, own)
            check_postprocess(document, path, own)
            check_samples(document, root, (*path, "accuracy"), with_enabled)
            check_search(document, path, with_enabled, ("quantize", "keep"))
            check_search(document, path, with_enabled, ("quantize", "accuracy_control"))
            check_search(document, path, with_enabled, ("keep",))
            check_control(document, path, with_enabled)
            check_metric(document, root, (*path, "accuracy"), with_enabled)
            _check_original(document, root, path, with_enabled)
            check_samples(document, root, (*path, "quantize", "calibration"), with_enabled)
            _check_globs(document, path, own, targets)
        if document.is_sound(path):
            specs.append(_make_model(root, name, merge_maps(defaults, own)))
    return tuple(specs)


def _check_files(document: Document, root: Path, path: KeyPath, own: dict[str, Any]) -> None:
    """Report missing files of a model. The files of a disabled model may be absent."""
    required = own.get("enabled", True) is not False
    check_source(document, root, (*path, "source"), own.get("source"), must_exist=required)
    labels = document.part(path, "labels", None)
    if labels is not None:
        check_file(document, root, (*path, "labels"), labels, must_exist=required)


def _check_original(document: Document, root: Path, path: KeyPath, own: dict[str, Any]) -> None:
    """Report a missing file of the float model to compare with, and one for a model that is quantised here."""
    here = (*path, "accuracy", "original")
    accuracy = own.get("accuracy")
    if not isinstance(accuracy, dict) or "original" not in accuracy or not document.is_sound((*path, "accuracy")):
        return
    check_file(document, root, here, accuracy["original"], must_exist=own.get("enabled", True) is not False)
    if "quantize" in own:
        what = "the model is quantised here, so its own file is the original"
        document.report_key(here, what, "no `original`, or no `quantize`")


def _check_inputs(document: Document, path: KeyPath, own: dict[str, Any]) -> None:
    inputs = own.get("inputs")
    for name, item in inputs.items() if isinstance(inputs, dict) else ():
        here = (*path, "inputs", name)
        if isinstance(item, dict) and "range" in item and document.is_sound((*here, "range")):
            low, high = item["range"]
            if low >= high:
                document.report((*here, "range"), f"the range [{low}, {high}) is empty", "low below high")


def _check_preprocess(document: Document, path: KeyPath, own: dict[str, Any]) -> None:
    data, here = own.get("preprocess"), (*path, "preprocess")
    if not isinstance(data, dict) or not document.is_sound((*here, "color")):
        return
    color = data.get("color", "rgb")
    for key in ("mean", "std"):
        values = document.part(here, key, None)
        if values is not None and len(values) != _CHANNELS[color]:
            expected = f"{_CHANNELS[color]}, one for each channel of {color}"
            document.report((*here, key), f"has {len(values)} items", expected)


def _check_globs(document: Document, path: KeyPath, own: dict[str, Any], targets: Sequence[str]) -> None:
    """Report each glob that matches no target, because it is misspelt or the target was removed."""
    if not targets or not isinstance(own.get("targets"), dict):
        return
    for side in ("include", "exclude"):
        for index, glob in enumerate(document.part((*path, "targets"), side, ())):
            if not fnmatch.filter(targets, glob):
                what = f"{show_value(glob)} matches no target of targets.yaml"
                here = (*path, "targets", side, index)
                document.report(here, what, "a name or a glob", find_nearest(glob, targets))


def _make_model(root: Path, name: str, data: dict[str, Any]) -> ModelSpec:
    globs, labels, preprocess = data.get("targets", {}), data.get("labels"), data.get("preprocess")
    tolerance = data.get("tolerance", {})
    plain = {key: float(value) for key, value in tolerance.items() if not isinstance(value, dict)}
    sizes = make_sizes(data)
    return ModelSpec(
        name=name,
        source=make_source(root, data["source"]),
        inputs=tuple(_make_input(key, item, sizes) for key, item in sorted(data.get("inputs", {}).items())),
        sizes=sizes,
        tolerance=Tolerance(**plain),
        reduced_tolerance=_make_reduced(tolerance),
        accuracy=_make_accuracy(root, data),
        quantize=make_quantize(root, data),
        keep=make_keep(data),
        preprocess=None if preprocess is None else _make_preprocess(preprocess),
        frames=() if preprocess is None else make_frames(preprocess),
        postprocess=make_postprocess(data.get("postprocess", {})),
        labels=None if labels is None else relative_path(root, labels),
        simplify=_make_simplify(data.get("simplify", {})),
        enabled=data.get("enabled", True),
        include=tuple(globs.get("include", ("*",))),
        exclude=tuple(globs.get("exclude", ())),
    )


def _make_reduced(data: dict[str, Any]) -> FrozenMap[Precision, FrozenMap[str, float]]:
    precisions: list[Precision] = [name for name in get_args(Precision) if name in data]
    return FrozenMap(
        (name, FrozenMap(sorted((key, float(value)) for key, value in data[name].items()))) for name in precisions
    )


def _make_input(name: str, data: dict[str, Any], sizes: Sizes | None) -> InputSpec:
    """Return an input. If its shape varies, it is that of the largest size."""
    shape = sizes.shape(name, sizes.choices[-1]) if sizes and name in sizes.inputs else data.get("shape")
    low, high = data.get("range", (None, None))
    return InputSpec(
        name=name,
        shape=None if shape is None else tuple(int(size) for size in shape),
        dtype=data.get("dtype"),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        value=None if "value" not in data else canonical_json(data["value"]),
    )


def _make_preprocess(data: dict[str, Any]) -> Preprocess:
    scale = data.get("scale", "1/255")
    return Preprocess(
        input=data.get("input"),
        resize=data.get("resize", "stretch"),
        color=data.get("color", "rgb"),
        scale=float(Fraction(scale)) if isinstance(scale, str) else float(scale),
        mean=tuple(float(value) for value in data.get("mean", ())),
        std=tuple(float(value) for value in data.get("std", ())),
        layout=data.get("layout", "NCHW"),
        align=data.get("align", "center"),
        fill=int(data.get("fill", 114)),
        crop_pct=float(data.get("crop_pct", 1.0)),
    )


def _make_accuracy(root: Path, data: dict[str, Any]) -> Accuracy | None:
    accuracy = data.get("accuracy")
    if accuracy is None:
        return None
    asked = {name: float(accuracy[name]) for name in ("top1", "rms", "of_largest") if name in accuracy}
    kind, paths = find_samples(root, accuracy)
    original = accuracy.get("original")
    named = None if original is None else relative_path(root, original)
    return Accuracy(kind, paths, **asked, metric=make_metric(root, accuracy), original=named)


def _make_simplify(data: dict[str, Any]) -> SimplifyOptions:
    default = SimplifyOptions()
    return SimplifyOptions(
        enabled=data.get("enabled", default.enabled),
        skip=tuple(data.get("skip", default.skip)),
        seed=int(data.get("seed", default.seed)),
        rtol=float(data.get("rtol", default.rtol)),
        atol=float(data.get("atol", default.atol)),
    )
