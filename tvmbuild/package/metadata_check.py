"""The check that an untrusted ``mod.json`` has all parts of a package, with the right types and plausible sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.package.json_checks import (
    Check,
    between,
    check_map,
    each,
    map_of,
    natural,
    number,
    optional,
    scalar,
    text,
    truth,
    values,
)

if TYPE_CHECKING:
    from tvmbuild.package import vision_check
else:
    vision_check = import_lazily("tvmbuild.package.vision_check")

MAX_TENSOR_BYTES = 1 << 40
_MAX_COST = 1 << 52
MAX_LENGTHS = 1 << 16
"""The largest number of lengths that a package may return after its outputs."""
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


def check_metadata(value: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError that names the part if a part of a mod.json is missing or invalid."""
    check_map(value, "mod.json", _PARTS)
    if value["params"] not in ("lifted", "embedded"):
        raise ValueError(f"params is {value['params']!r}")
    for side in ("inputs", "outputs"):
        names = [tensor["name"] for tensor in value[side]]
        if len(set(names)) < len(names):
            raise ValueError(f"{side} have a name twice")
    if value.get("frames") and value["preprocess"] is None:
        raise ValueError("preprocess is missing, although the package takes frames")
    sizes = value.get("sizes")
    if sizes:
        inputs, outputs = ({tensor["name"] for tensor in value[side]} for side in ("inputs", "outputs"))
        if sizes["outputs"].keys() != outputs or not sizes["inputs"].keys() <= inputs:
            raise ValueError("sizes.inputs or sizes.outputs are other tensors than the package's")


def _axis(value: Any, where: str) -> None:
    if not isinstance(value, str):
        natural(value, where)


def _digest(value: Any, where: str) -> None:
    text(value, where)
    if len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise ValueError(f"{where} is no SHA-256")


def _attribute(value: Any, where: str) -> None:
    (each(scalar) if isinstance(value, list) else scalar)(value, where)


def _dtype(value: Any, where: str) -> None:
    text(value, where)
    if value not in _DTYPES:
        raise ValueError(f"{where} is {value!r}")


def _tensor(value: Any, where: str) -> None:
    check_map(value, where, {"name": text, "shape": each(natural), "dtype": _dtype, "counts": optional(_counts)})
    if math.prod(value["shape"]) * _DTYPES[value["dtype"]] > MAX_TENSOR_BYTES:
        raise ValueError(f"{where}.shape is larger than any memory")
    axes = [count["axis"] for count in value.get("counts") or ()]
    if len(set(axes)) < len(axes) or any(axis >= len(value["shape"]) for axis in axes):
        raise ValueError(f"{where}.counts has an axis twice, or one that is none of its shape")


def _counts(value: Any, where: str) -> None:
    each(map_of({"axis": natural, "place": natural}))(value, where)
    if any(count["place"] >= MAX_LENGTHS for count in value):
        raise ValueError(f"{where} has a place that is too large")


def _preprocess(value: Any, where: str) -> None:
    vision_check.check_preprocess(value, where)


def _frame(value: Any, where: str) -> None:
    vision_check.check_frame(value, where)


def _postprocess(value: Any, where: str) -> None:
    vision_check.check_postprocess(value, where)


_OPERATOR: dict[str, Check] = {
    "function": text,
    "name": text,
    "key": text,
    "flops": optional(natural),
    "bytes": optional(natural),
    "covered": truth,
}
_SIZES: dict[str, Check] = {
    "inputs": values(each(_axis)),
    "outputs": values(each(_axis)),
    "padded": each(text),
    "pad": values(number),
    "functions": each(
        map_of(
            {
                "values": values(between(1, MAX_TENSOR_BYTES)),
                "library": text,
                "params": each(natural),
                "outputs": values(each(natural)),
                "cost": optional(between(1, _MAX_COST)),
                "operators": optional(each(map_of(_OPERATOR))),
            }
        )
    ),
    "range": optional(
        map_of({"letter": text, "first": between(1, MAX_TENSOR_BYTES), "last": between(1, MAX_TENSOR_BYTES)})
    ),
}
_PARTS: dict[str, Check] = {
    "model": text,
    "entry": text,
    "profiled": optional(text),
    "workspace": optional(natural),
    "scratch": optional(map_of({"caller": natural, "worker": natural})),
    "largest": optional(
        each(map_of({"part": text, "operator": text, "shape": each(natural), "dtype": text, "bytes": natural}))
    ),
    "layout": text,
    "params": text,
    "target": map_of(
        {
            "name": text,
            "kind": text,
            "attributes": values(_attribute),
            "host": values(_attribute),
            "glibc": optional(text),
            "flags": optional(each(text)),
        }
    ),
    "inputs": each(_tensor),
    "outputs": each(_tensor),
    "coverage": map_of({"tasks": natural, "covered": natural, "uncovered": each(text)}),
    "preprocess": optional(_preprocess),
    "frames": optional(each(_frame)),
    "postprocess": optional(_postprocess),
    "sizes": optional(map_of(_SIZES)),
    "labels": optional(each(text)),
    "digests": values(text),
    "tools": values(text),
    "notes": each(text),
    "operators": optional(each(map_of(_OPERATOR))),
    "files": values(map_of({"sha256": _digest, "size": natural})),
}
