"""Operators that move or repeat axes: Transpose, Squeeze, Unsqueeze, Expand, Tile, Identity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvmbuild.compiler.importing.bounds.lengths import Length, Number, find_high, most, multiply
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow, read_axes


def identity(node: onnx.NodeProto, _tracker: Tracker) -> Sequence[str]:
    """Return the input itself."""
    return [node.input[0]]


def dropout(node: onnx.NodeProto, _tracker: Tracker) -> Sequence[str]:
    """Return the input itself, unless the node may drop values."""
    if len(node.input) > 2 and node.input[2]:
        raise cannot_follow(node, "it may drop values at random")
    return [node.input[0]]


def transpose(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Move the lengths with the axes."""
    lengths, rank = tracker.lengths(node.input[0]), len(tracker.shape(node.input[0]))
    order = list(attribute_of(node, "perm", range(rank)[::-1]))
    moved = {place: lengths[axis] for place, axis in enumerate(order) if axis in lengths}
    return [tracker.give(tracker.copy(node)[0], moved)]


def squeeze(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Remove axes; a padded axis that is removed has one real element, the first one."""
    name = node.input[0]
    shape, lengths = tracker.shape(name), tracker.lengths(name)
    axes = _read_axes(node, tracker, len(shape))
    if axes is None:
        if lengths:
            raise cannot_follow(node, "which axes it removes depends on data")
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    for axis in axes:
        name = tracker.cut(name, axis, 1)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return [_with_axes(tracker, name, [(shape[axis], lengths.get(axis)) for axis in kept])]


def unsqueeze(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Insert axes of one element."""
    name = node.input[0]
    shape, lengths = tracker.shape(name), tracker.lengths(name)
    axes = _read_axes(node, tracker, None) or []
    rank = len(shape) + len(axes)
    axes = [axis % rank for axis in axes]
    old = iter((size, lengths.get(axis)) for axis, size in enumerate(shape))
    return [_with_axes(tracker, name, [(1, None) if axis in axes else next(old) for axis in range(rank)])]


def expand(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Repeat axes of one element up to a length that may depend on data."""
    target = list(tracker.elements(node.input[1]).reshape(-1))
    return [_repeat(node, tracker, node.input[0], target)]


def tile(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Repeat a value along its axes; of axes whose length depends on data, only those of one element are repeated."""
    name = node.input[0]
    repeats = list(tracker.elements(node.input[1]).reshape(-1))
    shape = tracker.true_shape(name)
    for axis, (size, times) in enumerate(zip(shape, repeats, strict=True)):
        if times != 1 and size != 1 and (isinstance(size, Length) or isinstance(times, Length)):
            raise cannot_follow(node, f"it repeats axis {axis}, whose length depends on data")
    whole = [times if isinstance(times, int) and size != 1 else 1 for size, times in zip(shape, repeats, strict=True)]
    if any(times != 1 for times in whole):
        lengths = tracker.lengths(name)
        name = tracker.give(tracker.emit("Tile", name, tracker.integers(whole)), lengths)
    target = [times if size == 1 else 1 for size, times in zip(shape, repeats, strict=True)]
    return [_repeat(node, tracker, name, target)]


def _repeat(node: onnx.NodeProto, tracker: Tracker, name: str, target: Sequence[Number]) -> str:
    given = tracker.true_shape(name)
    rank = max(len(given), len(target))
    padded = [1] * (rank - len(given)) + list(tracker.shape(name))
    ones: list[Number] = [1] * rank
    given = ones[len(given) :] + given
    wanted = ones[len(target) :] + list(target)
    lengths, shape = {}, []
    for axis, (old, new) in enumerate(zip(given, wanted, strict=True)):
        if old != 1 and new not in {old, 1}:
            raise cannot_follow(
                node, f"the length of axis {axis} depends on data, and may differ from what it asks for"
            )
        length = old if old != 1 else new
        shape.append(padded[axis] if old != 1 else max(1, find_high(length)))
        lengths[axis] = most(0, length)
    for axis, size in enumerate(padded):
        name = tracker.cut(name, axis - (rank - len(tracker.shape(name))), 1) if given[axis] == 1 and size > 1 else name
    result = name if list(tracker.shape(name)) == shape else tracker.emit("Expand", name, tracker.integers(shape))
    return tracker.give(result, lengths)


def constant_of_shape(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Fill a shape that depends on data with a constant."""
    target = list(tracker.elements(node.input[0]).reshape(-1))
    value = attribute_of(node, "value", None)
    array = np.zeros(1, np.float32) if value is None else onnx.numpy_helper.to_array(value)
    return [_repeat(node, tracker, tracker.constant(array.reshape(())), target)]


def shape_numbers(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Return the real shape, or a part of it."""
    shape = tracker.true_shape(node.input[0])
    start, end = attribute_of(node, "start", 0), attribute_of(node, "end", len(shape))
    elements = np.empty(len(shape), dtype=object)
    elements[:] = shape
    return [tracker.set_numbers(elements[start:end], onnx.TensorProto.INT64)]


def size_number(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Return the number of real elements."""
    elements = np.empty((), dtype=object)
    elements[()] = multiply(*tracker.true_shape(node.input[0]))
    return [tracker.set_numbers(elements, onnx.TensorProto.INT64)]


def _with_axes(tracker: Tracker, name: str, axes: Sequence[tuple[int, Number | None]]) -> str:
    lengths = {axis: length for axis, (_, length) in enumerate(axes) if length is not None}
    return tracker.give(tracker.reshape(name, [size for size, _ in axes]), lengths)


def _read_axes(node: onnx.NodeProto, tracker: Tracker, rank: int | None) -> list[int] | None:
    axes = attribute_of(node, "axes", None)
    if axes is None and len(node.input) > 1 and node.input[1]:
        axes = read_axes(node, tracker, node.input[1])
    if axes is None:
        return None
    return list(axes) if rank is None else [axis % rank for axis in axes]
