"""Operators that find elements or boxes: their result has all rows that can be found, and the count of those found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.bounds.indexing import take
from tvmbuild.compiler.importing.bounds.lengths import Length, Number, find_high, least, most, name_value
from tvmbuild.compiler.importing.bounds.names import POSITIONS, SUPPRESSION
from tvmbuild.compiler.importing.bounds.reshape import reshape_to
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow

MOST_BOXES = 1 << 22
"""The largest number of boxes that a suppression may keep."""
_INPUTS = 5


def find_true(tracker: Tracker, flags: str) -> tuple[str, Number]:
    """Return the positions of the true elements of a vector of booleans, and their number."""
    (size,) = tracker.shape(flags)
    constant = tracker.constant_of(flags)
    if constant is not None:
        kept = np.flatnonzero(constant)
        padded = np.zeros(max(1, len(kept)), np.int64)
        padded[: len(kept)] = kept
        return tracker.give(tracker.constant(padded), {0: len(kept)}), len(kept)
    positions, count = tracker.own(POSITIONS, [flags], [(TensorProto.INT64, (size,)), (TensorProto.INT64, ())])
    number = name_value(count, 0, size)
    return tracker.give(positions, {0: number}), number


def non_zero(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a NonZero: the indices of each element along each axis, computed of its position."""
    name = node.input[0]
    shape = tracker.shape(name)
    flags = name if tracker.kind(name) == TensorProto.BOOL else _differs(tracker, name)
    flags = tracker.mask(tracker.give(flags, tracker.lengths(name)), 0)
    positions, count = find_true(tracker, tracker.reshape(flags, [math.prod(shape)]))
    if tracker.kind(name) == TensorProto.BOOL:
        tracker.true_counts[tracker.said(name)] = count
    rows = []
    for axis, size in enumerate(shape):
        at, step = positions, math.prod(shape[axis + 1 :])
        at = tracker.emit("Div", at, tracker.constant(np.array(step))) if step > 1 else at
        rows.append(_modulo(tracker, at, size) if axis else at)
    if not rows:  # of a scalar, ONNX has no indices
        raise cannot_follow(node, "it is of a scalar")
    found = [tracker.unsqueeze(row, [0]) for row in rows]
    joined = found[0] if len(found) == 1 else tracker.emit("Concat", *found, axis=0)
    return [tracker.give(joined, {1: count})]


def count_true(node: onnx.NodeProto, tracker: Tracker) -> str | None:
    """Return the name of a ReduceSum's result if it counts the true elements that a NonZero lists, else None.

    PyTorch's exporter repeats values so often in `x[mask] = …`.
    """
    if node.op_type != "ReduceSum" or attribute_of(node, "noop_with_empty_axes", 0):
        return None
    rank = len(tracker.scope.shape(node.input[0]) or ())
    axes = attribute_of(node, "axes", None)
    if len(node.input) > 1 and node.input[1]:
        axes = tracker.scope.constant(node.input[1])
        axes = [] if axes is None else axes.tolist()
    if rank == 0 or (axes is not None and {axis % rank for axis in axes} != set(range(rank))):
        return None
    name = node.input[0]
    while (maker := tracker.scope.maker(name)) is not None and name not in tracker.true_counts:
        if maker.op_type not in _KEEPING_COUNTS:
            return None
        name = maker.input[0]
    if name not in tracker.true_counts:
        return None
    numbers = np.array([tracker.true_counts[name]], object)
    numbers = numbers.reshape([1] * rank if attribute_of(node, "keepdims", 1) else ())
    return tracker.set_numbers(numbers, tracker.scope.element_type(node.output[0]) or TensorProto.INT64)


_KEEPING_COUNTS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""The operators that leave the number of true elements as it is, as booleans or as ones."""


def compress(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Compress as a Gather of the positions that the condition keeps."""
    name, condition = node.input
    axis = attribute_of(node, "axis", None)
    if axis is None:
        shape = tracker.true_shape(name)
        total = shape[0] if len(shape) == 1 else None
        name = name if total is not None else _flatten(node, tracker, name)
        axis = 0
    axis %= len(tracker.shape(name))
    condition = tracker.mask(condition, 0)
    positions, count = find_true(tracker, tracker.cut(condition, 0, tracker.shape(name)[axis]))
    return [tracker.give(take(tracker, name, positions, axis), {**tracker.lengths(name), axis: count})]


def non_max_suppression(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a NonMaxSuppression: the kept boxes of each batch and class, which then move together."""
    boxes, scores, wanted, overlap, threshold = [*node.input, *[""] * _INPUTS][:_INPUTS]
    (batches, classes, count), number = tracker.shape(scores), tracker.true_shape(scores)[2]
    if set(tracker.lengths(scores)) - {2} or set(tracker.lengths(boxes)) - {1}:
        raise cannot_follow(node, "the number of its batches or classes depends on data")
    if tracker.true_shape(boxes)[1] != number:
        raise cannot_follow(node, "the numbers of its boxes and of its scores depend on data and may differ")
    count = min(count, tracker.shape(boxes)[1])
    scores, boxes = tracker.cut(scores, 2, count), tracker.cut(boxes, 1, count)
    limit = most(0, tracker.elements(wanted).reshape(-1)[0]) if wanted else 0
    kept = max(1, min(find_high(limit), count))
    if batches * classes * kept > MOST_BOXES:
        raise cannot_follow(
            node, f"it may keep {kept} boxes of each of {batches * classes} batches and classes, too many for a memory"
        )
    limits = [tracker.reshape(tracker.scalar(each), [1]) for each in (least(limit, number, kept), number)]
    shares = [tracker.reshape(name or _zero(tracker), [1]) for name in (overlap, threshold)]
    rows = batches * classes
    places, counts = tracker.own(
        SUPPRESSION,
        [boxes, scores, tracker.emit("Concat", *shares, axis=0), tracker.emit("Concat", *limits, axis=0)],
        [(TensorProto.INT64, (rows, kept)), (TensorProto.INT64, (rows,))],
        kept=kept,
        center=attribute_of(node, "center_point_box", 0),
        threshold=int(bool(threshold)),
    )
    return [_list_kept(tracker, (places, counts), (rows, classes, kept))]


def _list_kept(tracker: Tracker, found: tuple[str, str], sizes: tuple[int, int, int]) -> str:
    """Return batch, class and box of each box that is kept."""
    (places, counts), (rows, classes, kept) = found, sizes
    if rows == 1:
        length = name_value(tracker.reshape(counts, []), 0, kept)
        column = tracker.reshape(places, [kept, 1])
        zeros = tracker.constant(np.zeros((kept, 2), np.int64))
        return tracker.give(tracker.emit("Concat", zeros, column, axis=1), {0: length})
    numbers = tracker.reshape(tracker.integers(range(kept)), [1, kept])
    flags = tracker.emit("Less", numbers, tracker.reshape(counts, [rows, 1]))
    positions, length = find_true(tracker, tracker.reshape(flags, [rows * kept]))
    row = tracker.emit("Div", positions, tracker.constant(np.array(kept)))
    batch = tracker.emit("Div", row, tracker.constant(np.array(classes)))
    box = take(tracker, tracker.reshape(places, [rows * kept]), positions, 0)
    columns = [tracker.reshape(each, [rows * kept, 1]) for each in (batch, _modulo(tracker, row, classes), box)]
    return tracker.give(tracker.emit("Concat", *columns, axis=1), {0: length})


def _zero(tracker: Tracker) -> str:
    return tracker.constant(np.zeros(1, np.float32))


def _differs(tracker: Tracker, name: str) -> str:
    """Return which elements of a value differ from zero."""
    return tracker.emit("Not", tracker.emit("Equal", name, tracker.number_like(name, 0)))


def _modulo(tracker: Tracker, name: str, size: int) -> str:
    """Return the rest of whole numbers that are not negative."""
    divisor = tracker.constant(np.array(size))
    return tracker.emit("Sub", name, tracker.emit("Mul", tracker.emit("Div", name, divisor), divisor))


def _flatten(node: onnx.NodeProto, tracker: Tracker, name: str) -> str:
    shape = tracker.true_shape(name)
    total: Number = 1
    if any(isinstance(each, Length) for each in shape):
        raise cannot_follow(node, "it flattens a value whose length depends on data")
    for each in shape:
        total = int(total) * int(each)  # type: ignore[arg-type]
    return reshape_to(node, tracker, name, [total])
