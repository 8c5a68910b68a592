"""Elementwise operators: the result has the lengths of the operands, whose real shapes must agree."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tvmbuild.compiler.importing.bounds.lengths import Length, Number
from tvmbuild.compiler.importing.bounds.tracker import Tracker, cannot_follow

_DIVIDING = frozenset({"Div", "Mod"})


def elementwise(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write an elementwise operator; operands are cut to the smallest padded length of each axis."""
    inputs = list(node.input)
    if node.op_type in _DIVIDING and tracker.dtype(inputs[0]).kind in "iu":
        inputs[1] = tracker.give(tracker.mask(inputs[1], 1), tracker.lengths(inputs[1]))  # a CPU traps at zeros
    lengths, inputs = align(node, tracker, inputs)
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = inputs
    return [tracker.give(name, lengths) for name in tracker.copy(copy)]


def align(node: onnx.NodeProto, tracker: Tracker, inputs: Sequence[str]) -> tuple[dict[int, Number], list[str]]:
    """Return the lengths of a broadcast result, and the operands cut so that their padded shapes fit together.

    Raises NodeError if two operands may have different lengths along an axis.
    """
    found = [name for name in inputs if name]
    rank = max(len(tracker.shape(name)) for name in found)
    lengths: dict[int, Number] = {}
    cut = dict(zip(found, found, strict=True))
    for axis in range(rank):
        sides = {name: axis - rank + len(tracker.shape(name)) for name in found}
        sides = {name: own for name, own in sides.items() if own >= 0 and not _is_one(tracker, name, own)}
        counted = {name: tracker.true_shape(name)[own] for name, own in sides.items()}
        if not any(own in tracker.lengths(name) for name, own in sides.items()):
            continue
        if len(set(counted.values())) > 1:
            told = " and ".join(repr(tracker.said(name)) for name in list(dict.fromkeys(counted))[:2])
            raise cannot_follow(node, f"the lengths of {told} depend on data and may differ")
        lengths[axis] = next(iter(counted.values()))
        size = min(tracker.shape(name)[own] for name, own in sides.items())
        for name, own in sides.items():
            cut[name] = tracker.cut(cut[name], own, size)
    return lengths, [cut[name] if name else "" for name in inputs]


def _is_one(tracker: Tracker, name: str, axis: int) -> bool:
    """Return whether an axis has one element in all cases, so that it is broadcast."""
    length = tracker.true_shape(name)[axis]
    return tracker.shape(name)[axis] == 1 and not isinstance(length, Length) and length == 1
