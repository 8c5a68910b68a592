"""The check that an untrusted ``mod.json`` has all parts of a package, with the right types and plausible sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_type_hints

from tvmbuild.base.frame_specs import ENCODINGS, INTERPOLATIONS, frame_from_json
from tvmbuild.base.grid_forms import GRID_FORMS
from tvmbuild.base.postprocess_specs import ACTIVATIONS, BLANKS, BOX_FORMS, MAX_MASKS, MAX_RESULTS, REPEATED, find_clash
from tvmbuild.base.postprocess_specs import INTERPOLATIONS as MAP_INTERPOLATIONS
from tvmbuild.base.specs import MIN_CROP_PCT, Preprocess

MAX_TENSOR_BYTES = 1 << 40
MAX_LENGTHS = 1 << 16
"""The largest number of lengths that a package may return behind its outputs."""
_DTYPES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
Check = Callable[[Any, str], None]


def check_metadata(value: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError that names the part if a part of a mod.json is missing or invalid."""
    _check_map(value, "mod.json", _PARTS)
    if value["params"] not in ("lifted", "embedded"):
        raise ValueError(f"params is {value['params']!r}")
    for side in ("inputs", "outputs"):
        names = [tensor["name"] for tensor in value[side]]
        if len(set(names)) < len(names):
            raise ValueError(f"{side} have a name twice")


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{where} is no text")


def _natural(value: Any, where: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{where} is no natural number")


def _axis(value: Any, where: str) -> None:
    if not isinstance(value, str):
        _natural(value, where)


def _number(value: Any, where: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{where} is no finite number")


def _scalar(value: Any, where: str) -> None:
    if not isinstance(value, str | bool):
        _number(value, where)


def _share(value: Any, where: str) -> None:
    _number(value, where)
    if not MIN_CROP_PCT <= value <= 1:
        raise ValueError(f"{where} is {value}")


def _truth(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{where} is neither true nor false")


def _digest(value: Any, where: str) -> None:
    _text(value, where)
    if len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise ValueError(f"{where} is no SHA-256")


def _attribute(value: Any, where: str) -> None:
    (_each(_scalar) if isinstance(value, list) else _scalar)(value, where)


def _dtype(value: Any, where: str) -> None:
    _text(value, where)
    if value not in _DTYPES:
        raise ValueError(f"{where} is {value!r}")


def _tensor(value: Any, where: str) -> None:
    _check_map(value, where, {"name": _text, "shape": _each(_natural), "dtype": _dtype, "counts": _optional(_counts)})
    if math.prod(value["shape"]) * _DTYPES[value["dtype"]] > MAX_TENSOR_BYTES:
        raise ValueError(f"{where}.shape is larger than any memory")
    axes = [count["axis"] for count in value.get("counts") or ()]
    if len(set(axes)) < len(axes) or any(axis >= len(value["shape"]) for axis in axes):
        raise ValueError(f"{where}.counts has an axis twice, or one that is none of its shape")


def _counts(value: Any, where: str) -> None:
    _each(_map_of({"axis": _natural, "place": _natural}))(value, where)
    if any(count["place"] >= MAX_LENGTHS for count in value):
        raise ValueError(f"{where} has a place that is too large")


def _preprocess(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"{where} is no map")
    _check_fields(value, where, _PREPROCESS, [key for key in _PREPROCESS if key in value])
    channels = 1 if value.get("color", "rgb") == "gray" else 3
    for key in ("mean", "std"):
        if len(value.get(key, ())) not in (0, channels):
            raise ValueError(f"{where}.{key} has {len(value[key])} numbers")
    if 0 in value.get("std", ()):
        raise ValueError(f"{where}.std has a zero")


def _frame(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"{where} is no map")
    _check_fields(value, where, _FRAME, [key for key in _FRAME if key in value or key not in _OF_SOME_FRAMES])
    fault = frame_from_json(value).find_fault()
    if fault is not None:
        raise ValueError(f"{where} is impossible: {fault}")


def _crop(value: Any, where: str) -> None:
    _check_fields(value, where, _CROP, _CROP)


def _postprocess(value: Any, where: str) -> None:
    if not isinstance(value, dict) or not value or not set(value) <= set(_RESULTS):
        raise ValueError(f"{where} is not one or several of {', '.join(_RESULTS)}")
    clash = find_clash(value)
    if clash is not None:
        raise ValueError(f"{where} is impossible: {clash}")
    for kind, data in value.items():
        if not isinstance(data, list):
            _result(kind, data, f"{where}.{kind}")
            continue
        if kind not in REPEATED or not data:
            raise ValueError(f"{where}.{kind} is no result")
        for number, each in enumerate(data):
            _result(kind, each, f"{where}.{kind}[{number}]")


def _result(kind: str, data: Any, where: str) -> None:
    required = [key for key in _RESULTS[kind] if key not in _OPTIONAL or (isinstance(data, dict) and key in data)]
    _check_fields(data, where, _RESULTS[kind], required)


def _check_fields(value: Any, where: str, checks: Mapping[str, Check], required: Iterable[str]) -> None:
    """Check a map that has the required keys, and no keys without a check."""
    if isinstance(value, dict) and set(value) - set(checks):
        raise ValueError(f"{where} has the unknown key {min(set(value) - set(checks))}")
    _check_map(value, where, {key: checks[key] for key in required})


def _each(check: Check) -> Check:
    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise TypeError(f"{where} is no list")
        for index, item in enumerate(value):
            check(item, f"{where}[{index}]")

    return check_all


def _values(check: Check) -> Check:
    def check_all(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise TypeError(f"{where} is no map")
        for key, item in value.items():
            check(item, f"{where}.{key}")

    return check_all


def _map_of(parts: Mapping[str, Check]) -> Check:
    return lambda value, where: _check_map(value, where, parts)


def _optional(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


def _one_of(*choices: str) -> Check:
    def check(value: Any, where: str) -> None:
        if value not in choices:
            raise ValueError(f"{where} is {value!r}")

    return check


def _between(least: int, most: int) -> Check:
    def check(value: Any, where: str) -> None:
        _natural(value, where)
        if not least <= value <= most:
            raise ValueError(f"{where} is {value}")

    return check


def _check_map(value: Any, where: str, parts: Mapping[str, Check]) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"{where} is no map")
    for key, check in parts.items():
        name = key if where == "mod.json" else f"{where}.{key}"
        if key not in value and key not in _LATER:
            raise ValueError(f"{name} is missing")
        check(value.get(key), name)


_HINTS = get_type_hints(Preprocess)
_PREPROCESS: dict[str, Check] = {
    "input": _optional(_text),
    "resize": _one_of(*get_args(_HINTS["resize"])),
    "color": _one_of(*get_args(_HINTS["color"])),
    "layout": _one_of(*get_args(_HINTS["layout"])),
    "align": _one_of(*get_args(_HINTS["align"])),
    "fill": _between(0, 255),
    "crop_pct": _share,
    "scale": _number,
    "mean": _each(_number),
    "std": _each(_number),
}
_OPERATOR: dict[str, Check] = {
    "function": _text,
    "name": _text,
    "key": _text,
    "flops": _optional(_natural),
    "bytes": _optional(_natural),
    "covered": _truth,
}
_CROP: dict[str, Check] = dict.fromkeys(("top", "left", "height", "width"), _natural)
_FRAME: dict[str, Check] = {
    "height": _natural,
    "width": _natural,
    "encoding": _one_of(*ENCODINGS),
    "interpolation": _one_of(*INTERPOLATIONS),
    "stride": _natural,
    "crop": _crop,
}
_OF_SOME_FRAMES = ("stride", "crop")
_OUTPUTS: dict[str, Check] = {"outputs": _each(_text)}
_LABELS: dict[str, Check] = {"labels": _each(_text)}
"""The names of classes or points, which a result may have."""
_BOXES: dict[str, Check] = {
    **_OUTPUTS,
    "form": _one_of(*BOX_FORMS, *GRID_FORMS),
    "anchors": _each(_each(_number)),
    "score": _number,
    "overlap": _number,
    "most": _between(1, MAX_RESULTS),
    "agnostic": _truth,
    "strides": _each(_number),
    "variances": _each(_number),
    **_LABELS,
}
_OPTIONAL = ("labels", "strides", "variances")
_RESULTS: dict[str, dict[str, Check]] = {
    "boxes": _BOXES,
    "masks": {**_BOXES, "most": _between(1, MAX_MASKS)},
    "keypoints": {**_BOXES, "points": _between(1, MAX_RESULTS), "values": _between(2, 3)},
    "classes": {
        **_OUTPUTS,
        "activation": _one_of(*ACTIVATIONS),
        "score": _number,
        "most": _between(1, MAX_RESULTS),
        **_LABELS,
    },
    "segmentation": {
        **_OUTPUTS,
        "interpolation": _one_of(*MAP_INTERPOLATIONS),
        "activation": _one_of(*ACTIVATIONS),
        "score": _number,
        **_LABELS,
    },
    "text": {**_OUTPUTS, "activation": _one_of(*ACTIVATIONS), "blank": _one_of(*BLANKS)},
    "vector": {**_OUTPUTS, "normalise": _truth},
    "heatmaps": {**_OUTPUTS, **_LABELS},
}
_SIZES: dict[str, Check] = {
    "inputs": _values(_each(_axis)),
    "outputs": _values(_each(_axis)),
    "padded": _each(_text),
    "pad": _values(_number),
    "functions": _each(
        _map_of(
            {
                "values": _values(_between(1, MAX_TENSOR_BYTES)),
                "library": _text,
                "params": _each(_natural),
                "outputs": _values(_each(_natural)),
            }
        )
    ),
}
_LATER = ("operators", "profiled", "workspace", "frames", "postprocess", "counts", "sizes")
"""The parts that may be missing, because older packages lack them."""
_PARTS: dict[str, Check] = {
    "model": _text,
    "entry": _text,
    "profiled": _optional(_text),
    "workspace": _optional(_natural),
    "layout": _text,
    "params": _text,
    "target": _map_of(
        {
            "name": _text,
            "kind": _text,
            "attributes": _values(_attribute),
            "host": _values(_attribute),
            "glibc": _optional(_text),
        }
    ),
    "inputs": _each(_tensor),
    "outputs": _each(_tensor),
    "coverage": _map_of({"tasks": _natural, "covered": _natural, "uncovered": _each(_text)}),
    "preprocess": _optional(_preprocess),
    "frames": _optional(_each(_frame)),
    "postprocess": _optional(_postprocess),
    "sizes": _optional(_map_of(_SIZES)),
    "labels": _optional(_each(_text)),
    "digests": _values(_text),
    "tools": _values(_text),
    "notes": _each(_text),
    "operators": _optional(_each(_map_of(_OPERATOR))),
    "files": _values(_map_of({"sha256": _digest, "size": _natural})),
}
