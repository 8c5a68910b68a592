"""Operators that compute each row by itself: RoiAlign, GridSample, convolutions, pools, normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx

from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow

_LAST = 13
"""The first opset in which Hardmax reads one axis, and not all after it, too."""


def by_rows(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write an operator that computes each row of its first input by itself, with lengths only along other axes."""
    data, *others = node.input
    lengths, rank = tracker.lengths(data), len(tracker.shape(data))
    if not lengths.keys().isdisjoint(_list_read(node, tracker, rank)):
        raise cannot_follow(node, f"it reads across an axis of {tracker.said(data)!r} whose length depends on data")
    if node.op_type == "CastLike":
        others = [tracker.give(name, {}) for name in others]
    for name in others:
        if name and tracker.is_counted(name):
            raise cannot_follow(node, f"it reads {tracker.said(name)!r}, whose length depends on data")
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [tracker.give(data, {}), *others]
    results = tracker.whole(copy)
    for axis in lengths:
        if any(tracker.shape(name)[axis : axis + 1] != tracker.shape(data)[axis : axis + 1] for name in results):
            raise cannot_follow(node, f"it resizes axis {axis} of {tracker.said(data)!r}, whose length depends on data")
    return [tracker.give(name, lengths) for name in results]


def _list_read(node: onnx.NodeProto, tracker: Tracker, rank: int) -> Sequence[int]:
    """Return the axes of its first input that the operator reads across."""
    if node.op_type == "CastLike":
        return ()
    if node.op_type in {"QuantizeLinear", "DequantizeLinear"}:
        axis = attribute_of(node, "axis", 1)
        return (axis % rank,) if math.prod(tracker.shape(node.input[1])) > 1 else ()
    if node.op_type == "MeanVarianceNormalization":
        return [each % rank for each in attribute_of(node, "axes", (0, 2, 3))]
    one_axis = tracker.scope.opset >= _LAST
    if node.op_type in {"Hardmax", "LayerNormalization"}:
        axis = attribute_of(node, "axis", -1 if one_axis else 1) % rank
        return (axis,) if node.op_type == "Hardmax" and one_axis else range(axis, rank)
    return range(1, rank)


def one_hot(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a OneHot of counted indices; the new axis has a fixed length."""
    indices, *others = node.input
    lengths, rank = tracker.lengths(indices), len(tracker.shape(indices)) + 1
    new = attribute_of(node, "axis", -1) % rank
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [tracker.mask(indices, 0), *others]
    moved = {axis + (axis >= new): length for axis, length in lengths.items()}
    return [tracker.give(name, moved) for name in tracker.whole(copy)]


def roi_align(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a RoiAlign of counted regions; those of padding are regions of the first sample."""
    data, regions, samples = node.input
    lengths = tracker.lengths(regions)
    if tracker.is_counted(data) or set(lengths) - {0} or tracker.true_shape(samples) != tracker.true_shape(regions)[:1]:
        raise cannot_follow(node, "the numbers of its samples and regions depend on data and may differ")
    size = min(tracker.shape(samples)[0], tracker.shape(regions)[0])
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    cut = [tracker.cut(tracker.mask(name, 0), 0, size) for name in (regions, samples)]
    copy.input[:] = [data, *cut]
    return [tracker.give(tracker.copy(copy)[0], lengths)]


def grid_sample(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a GridSample of counted points; those of padding are in the middle of the picture."""
    data, grid = node.input
    lengths = tracker.lengths(grid)
    if set(tracker.lengths(data)) - {0} or tracker.true_shape(data)[0] != tracker.true_shape(grid)[0]:
        raise cannot_follow(node, f"the size of {tracker.said(data)!r}, which it reads, depends on data")
    size = min(tracker.shape(data)[0], tracker.shape(grid)[0])
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [tracker.cut(each, 0, size) for each in (data, tracker.mask(grid, 0))]
    # The result has the channels after the batch.
    return [tracker.give(tracker.copy(copy)[0], {axis + bool(axis): length for axis, length in lengths.items()})]
