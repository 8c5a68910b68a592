"""Unique: equal elements become neighbours by a sort, and the first one of each group is found."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.bounds.indexing import take
from tvmbuild.compiler.importing.bounds.lengths import Length, Number
from tvmbuild.compiler.importing.bounds.producers import find_true
from tvmbuild.compiler.importing.bounds.reductions import top_of
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow

_MOST = 1 << 16
"""The largest number of elements, because a CPU sorts them by insertion."""


def unique(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Unique of all elements: the elements, their first places, the group of each element, and the counts."""
    name = node.input[0]
    shape, size = tracker.true_shape(name), math.prod(tracker.shape(name))
    if attribute_of(node, "axis", None) is not None and len(shape) > 1:
        raise cannot_follow(node, "how many slices it finds along an axis depends on the data")
    if any(isinstance(each, Length) for each in shape):
        raise cannot_follow(node, "it sorts a value whose length depends on data")
    if size > _MOST:
        raise cannot_follow(node, f"it sorts {size} elements, more than {_MOST}")
    values, places, flags, groups = _sort(tracker, tracker.reshape(name, [size]))
    starts, count = find_true(tracker, flags)
    first = take(tracker, places, starts, 0)
    ends = _find_ends(tracker, starts, count, size)
    sizes = tracker.emit("Sub", ends, starts)
    if not attribute_of(node, "sorted", 1):
        starts, groups, order = _order_by_place(tracker, (starts, first, groups), count)
        first, sizes = take(tracker, first, order, 0), take(tracker, sizes, order, 0)
    inverse = tracker.emit("ScatterElements", tracker.integers([0] * size), places, groups, axis=0)
    counted = {0: count}
    found = (take(tracker, values, starts, 0), first, inverse, sizes)
    return [tracker.give(each, {} if each == inverse else counted) for each in found]


def _sort(tracker: Tracker, name: str) -> tuple[str, str, str, str]:
    """Return the sorted elements, their places, whether each is the first of its group, and the group's number."""
    (size,) = tracker.shape(name)
    values, places = top_of(tracker, name, 0, size, 0)
    begin = tracker.constant(np.array([True]))
    flags = begin
    if size > 1:
        before, after = tracker.slice(values, 0, (0, size - 1, 1)), tracker.slice(values, 0, (1, size, 1))
        flags = tracker.emit("Concat", begin, tracker.emit("Not", tracker.emit("Equal", before, after)), axis=0)
    axis = tracker.constant(np.array(0))
    numbers = tracker.emit("CumSum", tracker.emit("Cast", flags, to=TensorProto.INT64), axis)
    return values, places, flags, tracker.emit("Sub", numbers, tracker.constant(np.array(1)))


def _find_ends(tracker: Tracker, starts: str, count: Number, size: int) -> str:
    """Return the end of each group: the start of the next one, or the number of elements."""
    total = tracker.integers([size])
    live = tracker.live(count, tracker.shape(starts)[0])
    known = tracker.emit("Where", live, starts, total)
    if tracker.shape(starts)[0] == 1:
        return total
    return tracker.emit("Concat", tracker.slice(known, 0, (1, tracker.shape(starts)[0], 1)), total, axis=0)


def _order_by_place(tracker: Tracker, found: tuple[str, str, str], count: Number) -> tuple[str, str, str]:
    """Return starts and groups in the order of the groups' first places, and that order."""
    starts, first, groups = found
    (size,) = tracker.shape(first)
    far = tracker.constant(np.array(1 << 30))
    known = tracker.emit("Where", tracker.live(count, size), first, far)
    _, order = top_of(tracker, known, 0, size, 0)
    ranks = tracker.emit("ScatterElements", tracker.integers([0] * size), order, tracker.integers(range(size)), axis=0)
    return take(tracker, starts, order, 0), take(tracker, ranks, groups, 0), order
