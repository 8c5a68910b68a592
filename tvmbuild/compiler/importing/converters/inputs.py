"""Normalisation of inputs for the converters: axes counted from the front, and scalars and vectors as in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.importing.spellings import find_rank
from tvmbuild.compiler.ir.expressions import constant, static_shape

_NEW_AXES = {"OneHot": 1}
"""The number of dimensions that an operator's result has more than its first input; the axes are axes of the result."""
_AXES_INPUT: Mapping[str, int] = {
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"), 1),
    **dict.fromkeys(("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"), 1),
    **dict.fromkeys(("CumProd", "CumSum", "Squeeze", "Unsqueeze"), 1),
    **dict.fromkeys(("Pad", "Slice"), 3),
}
_LAST_BY_DEFAULT: Mapping[str, int] = {
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), 13),
    **dict.fromkeys(("LayerNormalization", "OneHot", "TopK"), 1),
}
"""The first opset in which an operator's default axis is the last one, by the operator's name."""
_NAMES = ("axis", "axes")


def normalise_inputs(
    operator: str, inputs: list[Any], attributes: dict[str, Any], opset: int, builder: relax.BlockBuilder
) -> None:
    """Reshape inputs of one element to the rank that ONNX says, and count axes from the front; change both in place.

    TVM's ConvertLayout fails on some axes that are counted from the back ("std::bad_alloc"), and then converts no part
    of the network.
    """
    for place, value in enumerate(inputs):
        rank = find_rank(operator, place)
        if rank is not None and value is not None:
            inputs[place] = _with_rank(value, rank, builder)
    if opset >= _LAST_BY_DEFAULT.get(operator, opset + 1):
        attributes.setdefault("axis", -1)
    _count_from_front(operator, inputs, attributes)


def _with_rank(value: Any, rank: int, builder: relax.BlockBuilder) -> Any:
    shape = static_shape(value)
    if shape is None or len(shape) == rank or int(np.prod(shape)) != 1:
        return value
    if isinstance(value, tvm.ir.GenericConst):
        return constant(value.value.numpy().reshape([1] * rank))
    return builder.emit(relax.op.reshape(value, [1] * rank))


def _count_from_front(operator: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    rank = _find_rank(inputs)
    if rank is None:
        return
    rank += _NEW_AXES.get(operator, 0)
    for name in _NAMES:
        if name in attributes:
            attributes[name] = _shift(operator, attributes[name], rank)
    place = _AXES_INPUT.get(operator, len(inputs))
    if place < len(inputs) and isinstance(inputs[place], tvm.ir.GenericConst):
        given = inputs[place].value.numpy()
        if given.dtype.kind == "i" and (given < 0).any():
            axes = np.array(_shift(operator, given.tolist(), rank), given.dtype)
            inputs[place] = constant(axes)


def _find_rank(inputs: list[Any]) -> int | None:
    known = getattr(inputs[0], "ty", None) if inputs else None
    return int(known.ndim) if isinstance(known, relax.TensorType) and known.ndim >= 0 else None


def _shift(operator: str, axes: Any, rank: int) -> Any:
    """Return one axis or several axes, counted from the front."""
    if operator == "Unsqueeze" and not isinstance(axes, int):
        rank += len(axes)
    if isinstance(axes, int):
        return axes + rank if axes < 0 else axes
    return type(axes)(axis + rank if axis < 0 else axis for axis in axes)
