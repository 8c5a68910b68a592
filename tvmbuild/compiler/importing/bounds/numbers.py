"""Small tensors of whole numbers: shapes, counts, and what exporters compute of them, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.bounds.lengths import (
    Number,
    add,
    choose,
    divide,
    find_low,
    is_equal,
    is_less,
    least,
    most,
    multiply,
    subtract,
)
from tvmbuild.compiler.importing.bounds.tracker import MOST_NUMBERS, Numbers, Tracker, attribute_of

_Arrays = list[Numbers]
_WHOLE = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})


def compute_numbers(node: onnx.NodeProto, tracker: Tracker) -> str | None:
    """Return the name of the node's result if it is a small tensor of numbers that are followed, else None."""
    rule = _RULES.get(node.op_type)
    if rule is None or not all(node.input):
        return None
    arrays = [tracker.numbers(name) for name in node.input]
    if any(each is None for each in arrays):
        return None
    try:
        result = rule(node, [each for each in arrays if each is not None])
    except (ValueError, IndexError, TypeError, KeyError):
        return None
    typed = node.input[-1 if node.op_type == "Where" else 0]
    kind = attribute_of(node, "to", _KINDS.get(node.op_type, tracker.kind(typed)))
    if result is None or result.size > MOST_NUMBERS or kind not in _WHOLE:
        return None
    return tracker.set_numbers(np.asarray(result, dtype=object), kind)


def _each(function: Callable[..., Number]) -> Callable[[onnx.NodeProto, _Arrays], Numbers]:
    def compute(_node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
        joined = np.broadcast(*arrays) if len(arrays) > 1 else np.broadcast(arrays[0])
        result = np.empty(joined.shape, dtype=object)
        result.reshape(-1)[:] = [function(*each) for each in joined]
        return result

    return compute


def _divide(first: Number, second: Number) -> Number:
    if find_low(first) < 0 or find_low(second) < 1:
        raise ValueError
    return divide(first, second)


def _cast(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    if attribute_of(node, "to", 0) != TensorProto.BOOL:
        return arrays[0]
    return _each(lambda number: subtract(1, is_equal(number, 0)))(node, arrays)


def _reduce(function: Callable[..., Number]) -> Callable[[onnx.NodeProto, _Arrays], Numbers]:
    def compute(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
        data = arrays[0]
        axes = attribute_of(node, "axes", None) if len(arrays) == 1 else arrays[1].reshape(-1).tolist()
        if data.ndim != 1 or (axes is not None and [axis % 1 for axis in axes] != [0]):
            raise ValueError
        result = np.empty((1,) if attribute_of(node, "keepdims", 1) else (), dtype=object)
        result[...] = reduce(function, data.tolist())
        return result

    return compute


def _gather(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    return np.asarray(np.take(arrays[0], arrays[1].astype(np.int64), attribute_of(node, "axis", 0)), dtype=object)


def _slice(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    data, *given = arrays
    if not given:
        names = [attribute_of(node, each, None) for each in ("starts", "ends", "axes")]
        given = [np.asarray(each) for each in names if each is not None]
    starts, ends, *more = (each.reshape(-1).astype(np.int64).tolist() for each in given)
    axes, steps = [*more, *[None] * 2][:2]
    places = [slice(None)] * data.ndim
    for start, end, axis, step in zip(
        starts, ends, axes or range(len(starts)), steps or [1] * len(starts), strict=True
    ):
        # Before the first element is where a walk backwards ends.
        before = step < 0 and end < -data.shape[axis]
        places[axis] = slice(start, None if before else end, step)
    return data[tuple(places)]


def _concat(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    return np.concatenate(arrays, axis=attribute_of(node, "axis", 0))


def _squeeze(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    axes = attribute_of(node, "axes", None) if len(arrays) == 1 else arrays[1].reshape(-1).tolist()
    return np.squeeze(arrays[0], None if axes is None else tuple(axes))


def _unsqueeze(node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    axes = attribute_of(node, "axes", None) if len(arrays) == 1 else arrays[1].reshape(-1).tolist()
    return np.expand_dims(arrays[0], tuple(axes))


def _reshape(_node: onnx.NodeProto, arrays: _Arrays) -> Numbers:
    return arrays[0].reshape([int(each) for each in arrays[1].reshape(-1)])


_KINDS: Mapping[str, int] = {
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), TensorProto.BOOL),
}
_RULES: Mapping[str, Callable[[onnx.NodeProto, _Arrays], Any]] = {
    "Add": _each(add),
    "Sub": _each(subtract),
    "Mul": _each(multiply),
    "Div": _each(_divide),
    "Min": _each(least),
    "Max": _each(most),
    "Neg": _each(lambda number: multiply(-1, number)),
    "Equal": _each(is_equal),
    "Less": _each(is_less),
    "Greater": _each(lambda first, second: is_less(second, first)),
    "LessOrEqual": _each(lambda first, second: subtract(1, is_less(second, first))),
    "GreaterOrEqual": _each(lambda first, second: subtract(1, is_less(first, second))),
    "And": _each(least),
    "Or": _each(most),
    "Not": _each(lambda number: subtract(1, number)),
    "Where": _each(choose),
    "Cast": _cast,
    "Identity": lambda _node, arrays: arrays[0],
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Transpose": lambda node, arrays: np.transpose(arrays[0], attribute_of(node, "perm", None)),
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "ReduceProd": _reduce(multiply),
    "ReduceSum": _reduce(add),
    "ReduceMin": _reduce(least),
    "ReduceMax": _reduce(most),
}
