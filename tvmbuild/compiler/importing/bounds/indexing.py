"""Operators that read or write at indices: padded indices read the first element and write beside the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvmbuild.compiler.importing.bounds.lengths import Number
from tvmbuild.compiler.importing.bounds.names import INSIDE, WRITTEN
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow


def gather(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Gather: the lengths of the data, and those of the indices in the place of the axis."""
    data, indices = node.input
    rank = len(tracker.shape(data))
    axis = attribute_of(node, "axis", 0) % rank
    given, more = tracker.lengths(data), tracker.lengths(indices)
    places = _count_from_front(tracker, indices, tracker.true_shape(data)[axis])
    width = len(tracker.shape(indices))
    lengths = {(each if each < axis else each + width - 1): length for each, length in given.items() if each != axis}
    lengths |= {axis + each: length for each, length in more.items()}
    return [tracker.give(take(tracker, data, places, axis), lengths)]


def take(tracker: Tracker, data: str, places: str, axis: int) -> str:
    """Return the elements at places; a place of padding may be outside the data, and then reads any element."""
    return tracker.emit("Gather", data, places, axis=axis, **{INSIDE: 1})


def gather_elements(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a GatherElements, whose result has the shape of the indices."""
    data, indices = node.input
    axis = attribute_of(node, "axis", 0) % len(tracker.shape(data))
    for other, size in enumerate(tracker.shape(data)):
        if other != axis and tracker.shape(indices)[other] > size:
            indices = tracker.give(tracker.cut(indices, other, size), tracker.lengths(indices))
    places = _place(tracker, indices, data, axis)
    return [tracker.give(tracker.emit("GatherElements", data, places, axis=axis), tracker.lengths(indices))]


def gather_nd(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a GatherND of indices whose rows are counted, or of counted data."""
    data, indices = node.input
    shape, depth = tracker.shape(indices), tracker.shape(indices)[-1]
    if attribute_of(node, "batch_dims", 0) or len(shape) - 1 in tracker.lengths(indices):
        raise cannot_follow(
            node, "it gathers in batches, or by an unknown number of indices, whose length depends on data"
        )
    last = len(shape) - 1
    lengths = {last + axis - depth: length for axis, length in tracker.lengths(data).items() if axis >= depth}
    lengths |= tracker.lengths(indices)
    if depth == 1:
        flat = _count_from_front(tracker, tracker.reshape(indices, shape[:-1]), tracker.true_shape(data)[0])
        return [tracker.give(take(tracker, data, flat, 0), lengths)]
    return [tracker.give(tracker.emit("GatherND", data, _place_all(tracker, indices, data)), lengths)]


def scatter_nd(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a ScatterND; padded updates write into a row after the data, which is cut off again."""
    data, indices, updates = node.input
    given, more = tracker.lengths(data), tracker.lengths(indices)
    depth, last = tracker.shape(indices)[-1], len(tracker.shape(indices)) - 1
    inner = {axis - last + depth for axis in tracker.lengths(updates) if axis >= last}
    if last in more or any(axis not in given for axis in inner):
        raise cannot_follow(node, "how much it writes at an index depends on data")
    places = _place_all(tracker, indices, data) if more or given else indices
    size = tracker.shape(data)[0]
    for axis in range(last):
        rows = min(tracker.shape(places)[axis], tracker.shape(updates)[axis])
        places, updates = tracker.cut(places, axis, rows), tracker.cut(updates, axis, rows)
    if not more:
        return [tracker.give(tracker.emit("ScatterND", data, places, updates, **_reduction(node)), given)]
    live = tracker.live_all(tracker.give(places, more)) or ""
    first = tracker.constant(np.array([size if column == 0 else 0 for column in range(depth)], np.int64))
    places = tracker.emit("Where", live, places, first)
    written = tracker.emit("ScatterND", tracker.grow(data, 0, size + 1), places, updates, **_reduction(node))
    return [tracker.give(tracker.cut(written, 0, size), given)]


def scatter_elements(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a ScatterElements; padded updates write after the data along the axis."""
    data, indices, updates = node.input
    axis = attribute_of(node, "axis", 0) % len(tracker.shape(data))
    given, more = tracker.lengths(data), tracker.lengths(indices)
    size = tracker.shape(data)[axis]
    places = _place(tracker, indices, data, axis)
    live = tracker.live_all(tracker.give(places, more))
    if live is None:
        written = tracker.emit("ScatterElements", data, places, updates, axis=axis, **_reduction(node))
        return [tracker.give(written, given)]
    places = tracker.emit("Where", live, places, tracker.number_like(places, size))
    for each in range(len(tracker.shape(data))):
        rows = min(tracker.shape(places)[each], tracker.shape(updates)[each])
        if each != axis:
            rows = min(rows, tracker.shape(data)[each])
        places, updates = tracker.cut(places, each, rows), tracker.cut(updates, each, rows)
    grown = tracker.grow(data, axis, size + 1)
    written = tracker.emit("ScatterElements", grown, places, updates, axis=axis, **_reduction(node))
    return [tracker.give(tracker.cut(written, axis, size), given)]


def write(tracker: Tracker, places: str) -> str:
    """Return the places, stored in memory: otherwise TVM computes them again at each use, and compiles for minutes."""
    if tracker.constant_of(places) is not None or not tracker.shape(places):
        return places
    return tracker.own(WRITTEN, [places], [(tracker.kind(places), tracker.shape(places))])[0]


def _reduction(node: onnx.NodeProto) -> dict[str, str]:
    reduction = attribute_of(node, "reduction", b"none").decode()
    return {} if reduction == "none" else {"reduction": reduction}


def _place(tracker: Tracker, indices: str, data: str, axis: int) -> str:
    """Return indices that are in range: those of padding are 0, and negative ones count from the real end."""
    places = tracker.mask(indices, 0)
    length = tracker.lengths(data).get(axis)
    return places if length is None else _in_range(tracker, places, length, tracker.shape(data)[axis])


def _place_all(tracker: Tracker, indices: str, data: str) -> str:
    """Do the same for the rows of indices of a GatherND or ScatterND."""
    places = tracker.mask(indices, 0)
    depth = tracker.shape(indices)[-1]
    shape, true = tracker.shape(data)[:depth], tracker.true_shape(data)[:depth]
    if list(shape) == true:
        return places
    parts = []
    for column in range(depth):
        part = tracker.slice(places, len(tracker.shape(indices)) - 1, (column, column + 1, 1))
        parts.append(_in_range(tracker, part, true[column], shape[column]))
    return parts[0] if depth == 1 else tracker.emit("Concat", *parts, axis=len(tracker.shape(indices)) - 1)


def _in_range(tracker: Tracker, places: str, length: Number, size: int) -> str:
    places = _count_from_front(tracker, places, length)
    constant = tracker.constant_of(places)
    if constant is not None and (constant < size).all():
        return places
    inside = tracker.emit("Max", places, tracker.number_like(places, 0))
    return tracker.emit("Min", inside, tracker.number_like(places, size - 1))


def _count_from_front(tracker: Tracker, places: str, length: Number) -> str:
    """Return the indices from the front, with negative ones counted from the real end."""
    if tracker.is_natural(places):
        return places
    places = write(tracker, places)
    end = tracker.emit("Cast", tracker.scalar(length), to=tracker.kind(places))
    is_behind = tracker.emit("Less", places, tracker.number_like(places, 0))
    return tracker.emit("Where", is_behind, tracker.emit("Add", places, end), places)
