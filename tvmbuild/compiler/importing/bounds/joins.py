"""Operators that join values: Concat of counted parts, and If between values of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.bounds.indexing import take
from tvmbuild.compiler.importing.bounds.lengths import Number, add, choose, name_value
from tvmbuild.compiler.importing.bounds.producers import find_true
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow
from tvmbuild.compiler.importing.expand.scope import attributes_of


def concat(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Concat; along a counted axis, the real elements of the parts move together."""
    names = [name for name in node.input if 0 not in tracker.shape(name)] or list(node.input[:1])
    rank = len(tracker.shape(names[0]))
    axis = attribute_of(node, "axis", 0) % rank
    for other in range(rank):
        if other != axis and len({tracker.true_shape(name)[other] for name in names}) > 1:
            raise cannot_follow(node, "the lengths of its parts depend on data and may differ")
        if other != axis:
            size = min(tracker.shape(name)[other] for name in names)
            names = [tracker.give(tracker.cut(name, other, size), tracker.lengths(name)) for name in names]
    parts = [tracker.true_shape(name)[axis] for name in names]
    joined = names[0] if len(names) == 1 else tracker.emit("Concat", *names, axis=axis)
    lengths = {**tracker.lengths(names[0]), axis: reduce(add, parts)}
    if any(axis in tracker.lengths(name) for name in names[:-1]):
        live = [tracker.live(part, tracker.shape(name)[axis]) for part, name in zip(parts, names, strict=True)]
        positions, _ = find_true(tracker, tracker.emit("Concat", *live, axis=0))
        joined = take(tracker, joined, positions, axis)
    return [tracker.give(joined, lengths)]


def branch(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write both branches of an If, and choose between their results and lengths."""
    attributes = attributes_of(node)
    known = tracker.numbers(node.input[0])
    condition: Number | None = None if known is None else known.reshape(-1)[0]
    if isinstance(condition, int):
        return _write_branch(node, attributes["then_branch" if condition else "else_branch"], tracker)
    if condition is None:
        flag = tracker.emit("Cast", tracker.reshape(node.input[0], []), to=TensorProto.INT64)
        condition = name_value(flag, 0, 1)
    chosen = _write_branch(node, attributes["then_branch"], tracker)
    others = _write_branch(node, attributes["else_branch"], tracker)
    return [_choose(node, tracker, condition, each) for each in zip(chosen, others, strict=True)]


def _write_branch(node: onnx.NodeProto, graph: onnx.GraphProto, tracker: Tracker) -> list[str]:
    names: dict[str, str] = {}
    for each in tracker.scope.rename_into(graph, names, node.name or "If"):
        tracker.walk(each)
    results = [names.get(value.name, value.name) for value in graph.output]
    results = [tracker.names.get(name, name) for name in results]
    if any(tracker.scope.shape(name) is None for name in results):
        raise cannot_follow(node, "the length of a branch's result depends on data")
    return results


def _choose(node: onnx.NodeProto, tracker: Tracker, condition: Number, values: tuple[str, str]) -> str:
    first, second = values
    if first == second:
        return first
    numbers = [tracker.numbers(each) for each in values]
    if numbers[0] is not None and numbers[1] is not None and numbers[0].shape == numbers[1].shape:
        chosen = [choose(condition, *each) for each in zip(numbers[0].flat, numbers[1].flat, strict=True)]
        elements = np.empty(len(chosen), dtype=object)
        elements[:] = chosen
        return tracker.set_numbers(elements.reshape(numbers[0].shape), tracker.kind(first))
    shapes = [tracker.true_shape(each) for each in values]
    if len(shapes[0]) != len(shapes[1]) or tracker.kind(first) != tracker.kind(second):
        raise cannot_follow(node, "its branches give results of different ranks or types")
    sizes = [max(pair) for pair in zip(tracker.shape(first), tracker.shape(second), strict=True)]
    lengths = {axis: choose(condition, *pair) for axis, pair in enumerate(zip(*shapes, strict=True))}
    for axis, size in enumerate(sizes):
        first, second = (tracker.grow(each, axis, size) for each in (first, second))
    flag = tracker.emit("Cast", tracker.scalar(condition), to=TensorProto.BOOL)
    return tracker.give(tracker.emit("Where", flag, first, second), lengths)
