"""Expansion of MaxPool with its second output, the places of the maxima, which networks like SegNet unpool with."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from tvmbuild.compiler.importing.automatic_pads import find_same_pads
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope
from tvmbuild.compiler.importing.refusals import refuse

_MOST_TAPS = 169
"""The most elements of a window; models with larger windows are refused.

Each element adds a Slice, an Equal and a Where: 13 x 13, the largest common window, becomes some 500 nodes.
"""
_PADS_AS_INPUT = 11
"""The first opset in which Pad takes its widths as an input, and Equal compares floats."""


class _Axis(NamedTuple):
    """One axis of the windows: output ``o`` reads ``o * stride + t * dilation - before`` with its tap ``t``."""

    length: int
    taps: int
    stride: int
    dilation: int
    before: int
    outputs: int

    def starts(self) -> np.ndarray:
        """Return the place of the first tap of each output."""
        return np.arange(self.outputs) * self.stride - self.before

    def after(self) -> int:
        """Return how far the last window reaches past the data."""
        return max(0, int(self.starts()[-1]) + (self.taps - 1) * self.dilation - (self.length - 1))

    def is_inside(self, tap: int) -> np.ndarray:
        """Return for each output whether it reads an element of the data with this tap, and not padding."""
        places: np.ndarray = self.starts() + tap * self.dilation
        return (places >= 0) & (places < self.length)

    def first_inside(self) -> np.ndarray:
        """Return the distance from the place of the first tap of each output to that of its first tap in the data."""
        skipped: np.ndarray = np.maximum(0, -(self.starts() // self.dilation))
        return skipped * self.dilation


def max_pool_with_places(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand the places of a MaxPool that has them; each is that of the window's first element that equals the maximum.

    If none does, because the maximum is NaN, the place is that of the window's first element, as in ONNX Runtime.
    Return None for an unknown shape. Raises NodeError for windows of more than `_MOST_TAPS` elements, and for opsets
    before `_PADS_AS_INPUT`.
    """
    if scope.opset < _PADS_AS_INPUT:
        raise refuse(
            node,
            f"it has places, and the model's opset {scope.opset} compares no floats",
            "convert the model by onnx.version_converter.convert_version(model, 17), or export it with opset 17",
        )
    composer = NodeComposer(node, scope)
    taps_of_window = math.prod(composer.attributes["kernel_shape"])
    if taps_of_window > _MOST_TAPS:
        raise refuse(
            node,
            f"it has places, and a window of {taps_of_window} elements, which are more than {_MOST_TAPS}",
            "export the model without the places (return_indices=False), or pool in two steps of smaller windows",
        )
    shape = composer.known_shape(0)
    if shape is None:
        return None
    axes = _find_axes(composer.attributes, shape[2:])
    given = {name: value for name, value in composer.attributes.items() if name != "storage_order"}
    maxima = composer.add("MaxPool", node.input[0], **given)
    steps = _find_steps(shape[2:], by_columns=composer.attributes.get("storage_order", 0) == 1)
    padded = _pad(composer, node.input[0], axes)
    inside = _mask_taps(composer, axes)
    distances = zip(axes, steps, strict=True)
    firsts = [_along(axis.first_inside() * step, n, len(axes)) for n, (axis, step) in enumerate(distances)]
    place = composer.constant(functools.reduce(np.add, firsts) if any(map(np.any, firsts)) else np.array(0))
    for taps in reversed([*itertools.product(*(range(axis.taps) for axis in axes))]):
        moved = sum(tap * axis.dilation * step for tap, axis, step in zip(taps, axes, steps, strict=True))
        found = composer.add("Equal", _take_tap(composer, padded, axes, taps), maxima)
        for masks, tap in zip(inside, taps, strict=True):
            found = composer.add("And", found, masks[tap]) if tap in masks else found
        place = composer.add("Where", found, composer.constant(np.array(moved, np.int64)), place)
    planes = np.arange(math.prod(shape[:2])).reshape(*shape[:2], *[1] * len(axes)) * math.prod(shape[2:])
    place = composer.add("Add", composer.constant(planes), place)
    for number, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        place = composer.add("Add", place, composer.constant(_along(axis.starts() * step, number, len(axes))))
    composer.name(maxima, node.output[0])
    composer.name(place, node.output[1])
    return composer.nodes


def has_places(node: onnx.NodeProto) -> bool:
    """Return whether a MaxPool has its second output."""
    return len(node.output) > 1 and bool(node.output[1])


def _find_axes(attributes: dict[str, Any], sizes: Sequence[int]) -> list[_Axis]:
    rank = len(sizes)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    kernel, rule, unpadded = attributes["kernel_shape"], attributes.get("auto_pad", "NOTSET"), [0] * 2 * rank
    given = attributes.get("pads", unpadded) if rule == "NOTSET" else unpadded
    pads = find_same_pads(rule, sizes, kernel, strides, dilations) or given
    axes = []
    for number, (length, taps) in enumerate(zip(sizes, kernel, strict=True)):
        stride, dilation, before = strides[number], dilations[number], pads[number]
        room = length + before + pads[rank + number] - ((taps - 1) * dilation + 1)
        outputs = (-(-room // stride) if attributes.get("ceil_mode", 0) else room // stride) + 1
        if (outputs - 1) * stride >= length + before:  # a window begins in the data or in the padding before it
            outputs -= 1
        axes.append(_Axis(length, taps, stride, dilation, before, outputs))
    return axes


def _find_steps(sizes: Sequence[int], *, by_columns: bool) -> list[int]:
    """Return the distance in a plane between neighbours along each axis."""
    if by_columns:
        return [math.prod(sizes[:axis]) for axis in range(len(sizes))]
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """Return a value for each output along one of the windows' axes in a shape that fits outputs of this rank."""
    return values.reshape(-1, *[1] * (rank - 1 - axis))


def _mask_taps(composer: NodeComposer, axes: Sequence[_Axis]) -> list[dict[int, str]]:
    """Add masks of the outputs that read data; return them by axis and tap, except for taps that never read padding.

    A comparison with the padding does not tell it from data, which may have the smallest value of their type, too.
    """
    masks = []
    for number, axis in enumerate(axes):
        reads = {tap: _along(axis.is_inside(tap), number, len(axes)) for tap in range(axis.taps)}
        masks.append({tap: composer.constant(each) for tap, each in reads.items() if not each.all()})
    return masks


def _pad(composer: NodeComposer, value: str, axes: Sequence[_Axis]) -> str:
    """Surround the data by the smallest value of its type."""
    before, after = [axis.before for axis in axes], [axis.after() for axis in axes]
    if not any((*before, *after)):
        return value
    kind = composer.scope.element_type(value) or composer.kind
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    least = np.array(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)
    return composer.add("Pad", value, composer.integers(0, 0, *before, 0, 0, *after), composer.constant(least))


def _take_tap(composer: NodeComposer, padded: str, axes: Sequence[_Axis], taps: Sequence[int]) -> str:
    """Return the elements that all windows read with one of their taps."""
    begins = [tap * axis.dilation for tap, axis in zip(taps, axes, strict=True)]
    ends = [begin + (axis.outputs - 1) * axis.stride + 1 for begin, axis in zip(begins, axes, strict=True)]
    places = range(2, 2 + len(axes))
    return composer.add(
        "Slice",
        padded,
        *(composer.integers(*values) for values in (begins, ends, places, [axis.stride for axis in axes])),
    )
