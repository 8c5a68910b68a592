"""Operators that read along an axis: padding is replaced by what does not change their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tvmbuild.compiler.importing.bounds.lengths import Length, Number, find_high, least, most, multiply
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow, read_axes

_LOWEST, _HIGHEST = float("-inf"), float("inf")
_NEUTRAL: Mapping[str, float] = {
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSum", "ReduceSumSquare"), 0),
    "ReduceLogSumExp": _LOWEST,
    "ReduceMax": _LOWEST,
    "ReduceMin": _HIGHEST,
    "ReduceProd": 1,
}
"""Operator → the number that does not change its result."""
_BY_AXIS = 13
"""The first opset with Softmax along one axis, and with the axes of ReduceSum as an input."""
_K_AS_INPUT = 10


def reduce(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a reduction; of a mean, the divisor is the number of real elements."""
    name = node.input[0]
    rank, lengths = len(tracker.shape(name)), tracker.lengths(name)
    axes = _read_axes(node, tracker, rank)
    if axes is None:
        return [name]
    keep = bool(attribute_of(node, "keepdims", 1))
    operator = "ReduceSum" if node.op_type == "ReduceMean" else node.op_type
    reduced = tracker.reduce(operator, _mask(tracker, name, _NEUTRAL[operator], axes), axes, keep=keep)
    if node.op_type == "ReduceMean":
        count = multiply(*(tracker.true_shape(name)[axis] for axis in axes))
        count = most(1, count) if tracker.dtype(name).kind != "f" else count
        reduced = tracker.emit("Div", reduced, tracker.emit("Cast", tracker.scalar(count), to=tracker.kind(name)))
    left = [axis for axis in range(rank) if keep or axis not in axes]
    return [tracker.give(reduced, {left.index(axis): each for axis, each in lengths.items() if axis not in axes})]


def _read_axes(node: onnx.NodeProto, tracker: Tracker, rank: int) -> list[int] | None:
    """Return the axes of a reduction, or None if it reduces none."""
    axes = attribute_of(node, "axes", None)
    if len(node.input) > 1 and node.input[1]:
        axes = read_axes(node, tracker, node.input[1])
    if not axes:
        return None if attribute_of(node, "noop_with_empty_axes", 0) else list(range(rank))
    return [axis % rank for axis in axes]


def _mask(tracker: Tracker, name: str, fill: float, axes: Sequence[int]) -> str:
    """Return the value with padding along axes replaced; infinities become the type's bounds for whole numbers."""
    dtype = tracker.dtype(name)
    if dtype.kind in "iu" and not np.isfinite(fill):
        limits = np.iinfo(dtype)
        live = tracker.mask(name, 0, axes)
        if live == name:
            return name
        return _mask_exactly(tracker, name, axes, int(limits.min if fill < 0 else limits.max))
    if dtype.kind == "b":
        fill = float(fill > 0)
    return tracker.mask(name, fill, axes)


def _mask_exactly(tracker: Tracker, name: str, axes: Sequence[int], fill: int) -> str:
    constant = tracker.constant(np.array(fill, tracker.dtype(name)))
    for axis, length in sorted(tracker.lengths(name).items()):
        if axis in axes:
            form = [size if place == axis else 1 for place, size in enumerate(tracker.shape(name))]
            live = tracker.reshape(tracker.live(length, tracker.shape(name)[axis]), form)
            name = tracker.emit("Where", live, name, constant)
    return name


def arg_extreme(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write an ArgMax or ArgMin; of equal elements the first one is real."""
    name = node.input[0]
    shape, lengths = tracker.shape(name), tracker.lengths(name)
    axis, keep = attribute_of(node, "axis", 0) % len(shape), attribute_of(node, "keepdims", 1)
    if axis in lengths and attribute_of(node, "select_last_index", 0):
        raise cannot_follow(node, "it takes the last of equal elements along an axis whose length depends on data")
    masked = _mask(tracker, name, _LOWEST if node.op_type == "ArgMax" else _HIGHEST, [axis])
    found = tracker.emit(node.op_type, masked, axis=axis, keepdims=keep)
    left = [each for each in range(len(shape)) if keep or each != axis]
    return [tracker.give(found, {left.index(each): length for each, length in lengths.items() if each != axis})]


def softmax(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Softmax or LogSoftmax, in which padding has no share."""
    name = node.input[0]
    rank, lengths = len(tracker.shape(name)), tracker.lengths(name)
    by_axis = tracker.scope.opset >= _BY_AXIS
    axis = attribute_of(node, "axis", -1 if by_axis else 1) % rank
    read = [axis] if by_axis else list(range(axis, rank))
    masked = _mask(tracker, name, _LOWEST, read)
    return [tracker.give(tracker.emit(node.op_type, masked, axis=axis), lengths)]


def cumulate(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a CumSum, to which padding adds nothing."""
    name = node.input[0]
    lengths, axis = tracker.lengths(name), read_axes(node, tracker, node.input[1])[0] % len(tracker.shape(name))
    masked = tracker.mask(name, 0, [axis])
    chosen = {each: attribute_of(node, each, 0) for each in ("exclusive", "reverse")}
    given = tracker.constant(np.array(axis))
    return [tracker.give(tracker.emit("CumSum", masked, given, **chosen), lengths)]


def top_k(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a TopK; padding comes last, and ``k`` may depend on data."""
    name = node.input[0]
    shape, lengths = tracker.shape(name), tracker.lengths(name)
    axis = attribute_of(node, "axis", -1) % len(shape)
    as_input = tracker.scope.opset >= _K_AS_INPUT
    k: Number = tracker.elements(node.input[1]).reshape(-1)[0] if as_input else attribute_of(node, "k", 1)
    largest = attribute_of(node, "largest", 1)
    kept = least(most(0, k), tracker.true_shape(name)[axis])
    bound = max(1, min(find_high(kept), shape[axis]))
    values, places = top_of(
        tracker, _mask(tracker, name, _LOWEST if largest else _HIGHEST, [axis]), axis, bound, largest
    )
    return [tracker.give(each, {**lengths, axis: kept}) for each in (values, places)]


def top_of(tracker: Tracker, name: str, axis: int, k: int, largest: int) -> tuple[str, str]:
    """Return the k largest or smallest elements of a value of fixed length, and their places."""
    inputs = [name] if tracker.scope.opset < _K_AS_INPUT else [name, tracker.integers([k])]
    attributes = {"axis": axis} | ({"k": k} if len(inputs) == 1 else {})
    attributes |= {"largest": largest} if tracker.scope.opset > _K_AS_INPUT else {}
    node = onnx.helper.make_node("TopK", inputs, ["values", "places"], **attributes)
    values, places = tracker.copy(node)
    return values, places


def matrix_product(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a MatMul: rows, columns and batches keep their lengths, and padding adds nothing to a sum."""
    first, second = node.input
    left, right = tracker.shape(first), tracker.shape(second)
    inner = (len(left) - 1, max(len(right) - 2, 0))
    first, second = _mask_inner(node, tracker, (first, second), inner)
    shapes = [tracker.true_shape(each) for each in (first, second)]
    batches: dict[int, Number] = {}
    rank = max(len(left), len(right))
    for axis in range(rank - 2):
        found = []
        for shape in shapes:
            own = axis - rank + len(shape)
            found += [shape[own]] if own >= 0 and len(shape) > 2 and shape[own] != 1 else []
        if len(set(found)) > 1:
            raise cannot_follow(node, "the numbers of its matrices depend on data and may differ")
        if found and isinstance(found[0], Length):
            batches[axis] = found[0]
    product = tracker.emit("MatMul", first, second)
    last = len(tracker.shape(product)) - 1
    if len(left) > 1 and (length := tracker.lengths(first).get(len(left) - 2)) is not None:
        batches[last - (1 if len(right) > 1 else 0)] = length
    if len(right) > 1 and (length := tracker.lengths(second).get(len(right) - 1)) is not None:
        batches[last] = length
    return [tracker.give(product, batches)]


def general_product(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Gemm of counted rows or columns."""
    across, down = attribute_of(node, "transA", 0), attribute_of(node, "transB", 0)
    first, second, *added = node.input
    inner = (0 if across else 1, 1 if down else 0)
    first, second = _mask_inner(node, tracker, (first, second), inner)
    lengths = {}
    for axis, (name, own) in enumerate(((first, 1 if across else 0), (second, 0 if down else 1))):
        if own in tracker.lengths(name):
            lengths[axis] = tracker.lengths(name)[own]
    if any(tracker.is_counted(name) for name in added if name):
        raise cannot_follow(node, "the length of the values that it adds depends on data")
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [first, second, *added]
    return [tracker.give(tracker.copy(copy)[0], lengths)]


def _mask_inner(
    node: onnx.NodeProto, tracker: Tracker, names: tuple[str, str], axes: tuple[int, int]
) -> tuple[str, str]:
    """Return the factors with zeros after the real elements of the axes over which a product sums."""
    lengths = [tracker.true_shape(name)[axis] for name, axis in zip(names, axes, strict=True)]
    if lengths[0] != lengths[1]:
        raise cannot_follow(node, "the lengths over which it sums depend on data and may differ")
    size = min(tracker.shape(name)[axis] for name, axis in zip(names, axes, strict=True))
    found = []
    for name, axis in zip(names, axes, strict=True):
        masked = tracker.give(tracker.mask(name, 0, [axis]), tracker.lengths(name))
        kept = {place: length for place, length in tracker.lengths(name).items() if place != axis}
        found.append(tracker.give(tracker.cut(masked, axis, size), kept))
    return found[0], found[1]
