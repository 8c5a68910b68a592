"""Reshape and Flatten of values with padded axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from tvmbuild.compiler.importing.bounds.indexing import take, write
from tvmbuild.compiler.importing.bounds.lengths import Length, Number, divide, find_high, most, multiply
from tvmbuild.compiler.importing.bounds.tracker import Tracker, attribute_of, cannot_follow


def reshape(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Reshape to a shape that may contain counts."""
    name = node.input[0]
    target = list(tracker.elements(node.input[1]).reshape(-1))
    return [reshape_to(node, tracker, name, _complete(node, tracker.true_shape(name), target))]


def flatten(node: onnx.NodeProto, tracker: Tracker) -> Sequence[str]:
    """Write a Flatten as the Reshape that it is."""
    shape = tracker.true_shape(node.input[0])
    axis = attribute_of(node, "axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return [reshape_to(node, tracker, node.input[0], [multiply(*shape[:axis]), multiply(*shape[axis:])])]


def reshape_to(node: onnx.NodeProto, tracker: Tracker, name: str, target: Sequence[Number]) -> str:
    """Return the value in another real shape with as many elements.

    If the real elements stay in front along one axis, this is a reshape of the padded value; else the elements are
    gathered, whose places are computed by the counts.
    """
    given = tracker.true_shape(name)
    if all(isinstance(each, int) for each in target) and not tracker.is_counted(name):
        return tracker.reshape(name, [int(each) for each in target if isinstance(each, int)])
    padded = _keep_in_front(tracker.shape(name), given, target)
    if padded is not None:
        return tracker.give(tracker.reshape(name, padded), dict(enumerate(target)))
    return _gather(node, tracker, name, target)


def _complete(node: onnx.NodeProto, given: Sequence[Number], target: Sequence[Number]) -> list[Number]:
    allow_zero = attribute_of(node, "allowzero", 0)
    wanted = [given[axis] if each == 0 and not allow_zero else each for axis, each in enumerate(target)]
    if -1 in wanted:
        place = wanted.index(-1)
        others = multiply(*(each for axis, each in enumerate(wanted) if axis != place))
        wanted[place] = divide(multiply(*given), others)
    return [most(0, each) for each in wanted]


def _find_first(shape: Sequence[Number]) -> int:
    return next((axis for axis, each in enumerate(shape) if isinstance(each, Length)), len(shape))


def _keep_in_front(padded: Sequence[int], given: Sequence[Number], target: Sequence[Number]) -> list[int] | None:
    """Return the padded shape of the result if the elements stay in order, or None."""
    counted = [axis for axis, (size, length) in enumerate(zip(padded, given, strict=True)) if size != length]
    wanted = [axis for axis, each in enumerate(target) if isinstance(each, Length)]
    if len(counted) != 1 or len(wanted) != 1:
        return None
    (old,), (new,) = counted, wanted
    before, after = math.prod(padded[:old]), math.prod(padded[old + 1 :])
    wanted_before = math.prod(each for each in target[:new] if isinstance(each, int))
    wanted_after = math.prod(each for each in target[new + 1 :] if isinstance(each, int))
    # An axis of the real elements becomes several: all but the first must be whole.
    if before != wanted_before or not wanted_after or padded[old] * after % wanted_after:
        return None
    return [*target[:new], padded[old] * after // wanted_after, *target[new + 1 :]]  # type: ignore[list-item]


def _gather(node: onnx.NodeProto, tracker: Tracker, name: str, target: Sequence[Number]) -> str:
    shape, given = tracker.shape(name), tracker.true_shape(name)
    total = math.prod(shape)
    bounds = [min(max(1, find_high(each)), max(1, total)) for each in target]
    if math.prod(bounds) > 4 * total + 64:
        raise cannot_follow(node, "the length of several axes of its result depends on data")
    flat = _number_elements(tracker, bounds, target)
    place = tracker.constant(np.array(0))
    for axis in reversed(range(len(shape))):
        size = tracker.scalar(most(1, given[axis]))
        rest = tracker.emit("Div", flat, size)
        at = tracker.emit("Sub", flat, tracker.emit("Mul", rest, size))
        step = tracker.constant(np.array(math.prod(shape[axis + 1 :])))
        place = tracker.emit("Add", place, tracker.emit("Mul", at, step))
        flat = write(tracker, rest)
    gathered = take(tracker, tracker.reshape(name, [total]), place, 0)
    return tracker.give(gathered, dict(enumerate(target)))


def _number_elements(tracker: Tracker, bounds: Sequence[int], target: Sequence[Number]) -> str:
    """Return the number of each element of the result among the real elements."""
    number = ""
    for axis, bound in enumerate(bounds):
        form = [bound if each == axis else 1 for each in range(len(bounds))]
        step = tracker.scalar(multiply(*target[axis + 1 :]))
        part = tracker.emit("Mul", tracker.reshape(tracker.integers(range(bound)), form), step)
        number = tracker.emit("Add", number, part) if number else part
    return number
