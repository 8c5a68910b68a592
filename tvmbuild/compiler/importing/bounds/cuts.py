"""Operators that cut or lengthen axes: Slice, Split, Pad, Range."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx

from tvmbuild.compiler.importing.bounds.indexing import take
from tvmbuild.compiler.importing.bounds.lengths import (
    Length,
    Number,
    add,
    choose,
    divide,
    find_high,
    find_low,
    is_less,
    least,
    most,
    multiply,
    subtract,
)
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow, read_axes

_PAD_INPUTS = 4


def slice_axes(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Slice axis by axis; its bounds may depend on data."""
    name = node.input[0]
    rank = len(tracker.shape(name))
    starts, ends, axes, steps = _read_bounds(node, tracker, rank)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if not isinstance(axis, int) or not isinstance(step, int):
            raise cannot_follow(node, "its axes or steps depend on data")
        name = _slice(tracker, name, axis % rank, (start, end, step))
    return [name]


def _read_bounds(node: onnx.NodeProto, tracker: Tracker, rank: int) -> list[list[Number]]:
    given = [list(tracker.elements(each).reshape(-1)) if each else None for each in node.input[1:]]
    if not given:
        given = [attribute_of(node, each, None) for each in ("starts", "ends", "axes")]
    starts, ends, axes, steps = [*given, None, None, None, None][:4]
    count = len(starts or ())
    return [starts or [], ends or [], axes or list(range(min(rank, count))), steps or [1] * count]


def _slice(tracker: Tracker, name: str, axis: int, bounds: tuple[Number, Number, int]) -> str:
    start, end, step = bounds
    length, size = tracker.true_shape(name)[axis], tracker.shape(name)[axis]
    low, high = (0, length) if step > 0 else (-1, subtract(length, 1))
    start, end = (
        least(most(choose(is_less(each, 0), add(each, length), each), 0 if step > 0 else side), high)
        for each, side in ((start, 0), (end, low))
    )
    distance = subtract(end, start) if step > 0 else subtract(start, end)
    new = divide(most(0, add(distance, abs(step) - 1)), abs(step))
    lengths = {**tracker.lengths(name), axis: new}
    if new == 0:
        return tracker.give(tracker.slice(name, axis, (0, 0, 1)), lengths)
    if isinstance(start, int) and step > 0:
        stop = min(size, max(start + 1, find_high(end)))
        whole = start == 0 and step == 1 and stop == size
        result = name if whole else tracker.slice(name, axis, (min(start, size - 1), stop, step))
        return tracker.give(result, lengths)
    bound = max(1, min(find_high(new), -(-size // abs(step))))
    places = tracker.emit("Add", tracker.integers(range(0, bound * step, step)), tracker.scalar(start))
    return tracker.give(take(tracker, name, places, axis), lengths)


def split(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Split along an axis of fixed length."""
    name = node.input[0]
    axis = attribute_of(node, "axis", 0) % len(tracker.shape(name))
    lengths = tracker.lengths(name)
    sizes = list(tracker.elements(node.input[1]).reshape(-1)) if len(node.input) > 1 and node.input[1] else None
    sizes = sizes or attribute_of(node, "split", None)
    if axis not in lengths and (sizes is None or all(isinstance(each, int) for each in sizes)):
        return [tracker.give(part, lengths) for part in tracker.copy(node)]
    if sizes is None:
        raise cannot_follow(node, "the lengths of its parts depend on data")
    ends = list(itertools.accumulate(sizes, add))
    begins = [0, *ends[:-1]]
    return [_slice(tracker, name, axis, (begin, end, 1)) for begin, end in zip(begins, ends, strict=True)]


def pad(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Pad with a constant after real elements; how much is added may depend on data."""
    name, pads, value, axes = [*node.input, "", "", ""][:_PAD_INPUTS]
    rank = len(tracker.shape(name))
    if attribute_of(node, "mode", b"constant") != b"constant":
        raise cannot_follow(node, "it repeats elements of a value whose length depends on data")
    amounts = list(tracker.elements(pads).reshape(-1)) if pads else list(attribute_of(node, "pads", []))
    places = [axis % rank for axis in read_axes(node, tracker, axes)] if axes else list(range(rank))
    fill = value or tracker.number_like(name, attribute_of(node, "value", 0.0))
    for index, axis in enumerate(places):
        name = _lengthen(node, tracker, (name, fill), axis, (amounts[index], amounts[index + len(places)]))
    return [name]


def _lengthen(
    node: onnx.NodeProto, tracker: Tracker, what: tuple[str, str], axis: int, amounts: tuple[Number, Number]
) -> str:
    (name, fill), (before, after) = what, amounts
    if before == 0 and after == 0:
        return name
    length, size, lengths = tracker.true_shape(name)[axis], tracker.shape(name)[axis], tracker.lengths(name)
    new = most(0, add(before, length, after))
    if find_low(before) < 0:
        name = _slice(tracker, name, axis, (multiply(-1, before), length, 1))
        return _lengthen(node, tracker, (name, fill), axis, (0, after))
    if not isinstance(before, int):
        raise cannot_follow(node, "how much it adds in front depends on data")
    live = tracker.lengths(name).get(axis)
    if live is not None:
        form = [size if each == axis else 1 for each in range(len(tracker.shape(name)))]
        real = tracker.reshape(tracker.live(live, size), form)
        name = tracker.emit("Where", real, name, tracker.reshape(fill, []))
    bound = max(1, find_high(new))
    parts = [_fill(tracker, name, fill, axis, before), name, _fill(tracker, name, fill, axis, bound - before - size)]
    parts = [each for each in parts if each]
    grown = parts[0] if len(parts) == 1 else tracker.emit("Concat", *parts, axis=axis)
    return tracker.give(tracker.cut(grown, axis, bound), {**lengths, axis: new})


def _fill(tracker: Tracker, name: str, fill: str, axis: int, size: int) -> str:
    if size <= 0:
        return ""
    shape = [size if each == axis else extent for each, extent in enumerate(tracker.shape(name))]
    return tracker.emit("Expand", tracker.reshape(fill, []), tracker.integers(shape))


def number_range(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Range of whole numbers whose bounds depend on data."""
    if tracker.dtype(node.input[0]).kind not in "iu":
        raise cannot_follow(node, "how many numbers it gives depends on data")
    start, limit, delta = (tracker.elements(each).reshape(-1)[0] for each in node.input)
    if isinstance(delta, Length) or delta == 0:
        raise cannot_follow(node, "the step of its numbers depends on data")
    distance = subtract(limit, start) if delta > 0 else subtract(start, limit)
    length = divide(most(0, add(distance, abs(delta) - 1)), abs(delta))
    bound = max(1, find_high(length))
    if bound > 1 << 24:
        raise cannot_follow(node, "how many numbers it gives depends on data, without a bound")
    numbers = tracker.emit("Add", tracker.integers(range(0, bound * delta, delta)), tracker.scalar(start))
    return [tracker.give(tracker.emit("Cast", numbers, to=tracker.kind(node.input[0])), {0: length})]
