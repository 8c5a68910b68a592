"""The check of the parts of an untrusted ``mod.json`` that describe pictures, frames and results."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from tvmbuild.base.frame_specs import ENCODINGS, INTERPOLATIONS, frame_from_json
from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import (
    ACTIVATIONS,
    BLANKS,
    BOX_FORMS,
    MAX_MASKS,
    MAX_RESULTS,
    REPEATED,
    RESOLUTIONS,
    find_clash,
)
from tvmbuild.base.postprocess_specs import INTERPOLATIONS as MAP_INTERPOLATIONS
from tvmbuild.base.preprocess_specs import MIN_CROP_PCT, Preprocess
from tvmbuild.package.json_checks import (
    Check,
    between,
    check_fields,
    each,
    natural,
    number,
    one_of,
    optional,
    text,
    truth,
)


def check_preprocess(value: Any, where: str) -> None:
    """Check the rules that convert a picture."""
    check_fields(value, where, _PREPROCESS, _PREPROCESS)
    channels = 1 if value.get("color", "rgb") == "gray" else 3
    for key in ("mean", "std"):
        if len(value.get(key, ())) not in (0, channels):
            raise ValueError(f"{where}.{key} has {len(value[key])} numbers")
    if 0 in value.get("std", ()):
        raise ValueError(f"{where}.std has a zero")


def check_frame(value: Any, where: str) -> None:
    """Check a frame of a camera."""
    check_fields(value, where, _FRAME, _OF_SOME_FRAMES)
    fault = frame_from_json(value).find_fault()
    if fault is not None:
        raise ValueError(f"{where} is impossible: {fault}")


def _share(value: Any, where: str) -> None:
    number(value, where)
    if not MIN_CROP_PCT <= value <= 1:
        raise ValueError(f"{where} is {value}")


def _crop(value: Any, where: str) -> None:
    check_fields(value, where, _CROP)


def check_postprocess(value: Any, where: str) -> None:
    """Check the results that the package makes."""
    if not isinstance(value, dict) or not value or not set(value) <= set(_RESULTS):
        raise ValueError(f"{where} is not one or several of {', '.join(_RESULTS)}")
    clash = find_clash(value)
    if clash is not None:
        raise ValueError(f"{where} is impossible: {clash}")
    for kind, data in value.items():
        if not isinstance(data, list):
            check_fields(data, f"{where}.{kind}", _RESULTS[kind], _OPTIONAL)
            continue
        if kind not in REPEATED or not data:
            raise ValueError(f"{where}.{kind} is not a result")
        for position, result in enumerate(data):
            check_fields(result, f"{where}.{kind}[{position}]", _RESULTS[kind], _OPTIONAL)


_HINTS = get_type_hints(Preprocess)
_PREPROCESS: dict[str, Check] = {
    "input": optional(text),
    "resize": one_of(*get_args(_HINTS["resize"])),
    "color": one_of(*get_args(_HINTS["color"])),
    "layout": one_of(*get_args(_HINTS["layout"])),
    "align": one_of(*get_args(_HINTS["align"])),
    "fill": between(0, 255),
    "crop_pct": _share,
    "scale": number,
    "mean": each(number),
    "std": each(number),
}
_CROP: dict[str, Check] = dict.fromkeys(("top", "left", "height", "width"), natural)
_FRAME: dict[str, Check] = {
    "height": natural,
    "width": natural,
    "encoding": one_of(*ENCODINGS),
    "interpolation": one_of(*INTERPOLATIONS),
    "stride": natural,
    "crop": _crop,
}
_OF_SOME_FRAMES = ("stride", "crop")


def _some(value: Any, where: str) -> None:
    each(text)(value, where)
    if not value:
        raise ValueError(f"{where} is empty")


_OUTPUTS: dict[str, Check] = {"outputs": each(text)}
_LABELS: dict[str, Check] = {"labels": each(text)}
"""The names of classes or points, which a result may have."""
_RESOLUTION: dict[str, Check] = {"resolution": one_of(*RESOLUTIONS)}
_BOXES: dict[str, Check] = {
    **_OUTPUTS,
    "form": one_of(*BOX_FORMS, *GRID_FORMS),
    "anchors": each(each(number)),
    "score": number,
    "overlap": number,
    "most": between(1, MAX_RESULTS),
    "agnostic": truth,
    "strides": each(number),
    "variances": each(number),
    **_LABELS,
}
_OPTIONAL = ("labels", "strides", "variances", "resolution")
_RESULTS: dict[str, dict[str, Check]] = {
    "boxes": _BOXES,
    "masks": {**_BOXES, "most": between(1, MAX_MASKS), **_RESOLUTION},
    "keypoints": {**_BOXES, "points": between(1, MAX_RESULTS), "values": between(2, 3)},
    "classes": {
        **_OUTPUTS,
        "activation": one_of(*ACTIVATIONS),
        "score": number,
        "most": between(1, MAX_RESULTS),
        **_LABELS,
    },
    "segmentation": {
        **_OUTPUTS,
        "interpolation": one_of(*MAP_INTERPOLATIONS),
        "activation": one_of(*ACTIVATIONS),
        "score": number,
        **_LABELS,
        **_RESOLUTION,
    },
    "text": {**_OUTPUTS, "activation": one_of(*ACTIVATIONS), "blank": one_of(*BLANKS)},
    "vector": {**_OUTPUTS, "normalise": truth},
    "heatmaps": {**_OUTPUTS, **_LABELS},
    "raw": {"outputs": _some},
}
