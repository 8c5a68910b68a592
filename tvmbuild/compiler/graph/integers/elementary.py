"""Quantisation written out in operators that every pass of the graph knows, in the order that ONNX defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.expressions import constant
from tvmbuild.compiler.graph.integers.values import Quantised, Sum

Emit = Callable[[relax.Expr], relax.Expr]
_LARGEST = 255


def dequantise(emit: Emit, source: Quantised) -> relax.Expr:
    """Return the numbers that a tensor of integers stands for."""
    wide = emit(relax.op.astype(source.value, "float32"))
    if source.zero:
        wide = emit(relax.op.subtract(wide, _number(source.zero)))
    return relax.op.multiply(wide, _number(source.scale))


def quantise(emit: Emit, data: relax.Expr, scale: np.float32, zero: int) -> relax.Expr:
    """Return the uint8 nearest to the numbers, to even ones where two are as near."""
    return _clip(emit, emit(relax.op.divide(data, _number(scale))), zero, 0, _LARGEST)


def requantise(emit: Emit, data: Sum, scale: np.float32, zero: int) -> relax.Expr:
    """Return the uint8 nearest to the sum, as ONNX Runtime computes it: one product of the integer."""
    ratio = (data.scale / scale).astype(np.float32)
    low = max(0, _bound(data.low, scale, zero))
    high = min(_LARGEST, _bound(data.high, scale, zero))
    return _clip(emit, emit(relax.op.multiply(_widen(emit, data), constant(ratio))), zero, low, high)


def sum_up(emit: Emit, data: Sum) -> relax.Expr:
    """Return the numbers that a sum stands for, its bounds left out."""
    return relax.op.multiply(_widen(emit, data), constant(data.scale))


def _widen(emit: Emit, data: Sum) -> relax.Expr:
    value = data.value
    if np.any(data.offset):
        value = emit(relax.op.add(value, constant(data.offset.astype(np.int32))))
    return emit(relax.op.astype(value, "float32"))


def _clip(emit: Emit, data: relax.Expr, zero: int, low: int, high: int) -> relax.Expr:
    rounded = emit(relax.op.round(data))
    if zero:
        rounded = emit(relax.op.add(rounded, _number(zero)))
    bounded = emit(relax.op.maximum(rounded, _number(low)))
    bounded = emit(relax.op.minimum(bounded, _number(high)))
    return relax.op.astype(bounded, "uint8")


def _bound(bound: float, scale: np.float32, zero: int) -> int:
    """Return the integer that stands for the bound; far ones are no bounds."""
    return int(np.clip(np.rint(np.float32(bound) / scale) + zero, -1, _LARGEST + 1))


def _number(value: Any) -> relax.Expr:
    return constant(np.float32(value))
