"""Quantisation written out in operators that every pass of the graph knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.passes.int8.quant_params import Accumulator, ByChannel, Quantised, QuantParams, Whole

Emit = Callable[[relax.Expr], relax.Expr]


def dequantise(emit: Emit, source: Quantised | ByChannel) -> relax.Expr:
    """Return the numbers that a tensor of integers stands for."""
    wide = emit(relax.op.astype(source.value, "float32"))
    if source.zero:
        wide = emit(relax.op.subtract(wide, _number(source.zero)))
    return relax.op.multiply(wide, _number(source.scale))


def quantise(emit: Emit, data: relax.Expr, steps: QuantParams) -> relax.Expr:
    """Return the integers nearest to the numbers, even ones where two are as near."""
    # A division takes as long as 30 additions. The last bit differs; the graph's other scalars are multiplied by, too.
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / steps.scale
    is_right = bool(np.all(np.isfinite(inverse)))
    steady = relax.op.multiply(data, _number(inverse)) if is_right else relax.op.divide(data, _number(steps.scale))
    return _clip(emit, emit(steady), steps)


def requantise(emit: Emit, data: Accumulator, steps: QuantParams) -> relax.Expr:
    """Return the integers nearest to the sum, as ONNX Runtime computes them: one product of the integer."""
    return _clip(emit, emit(_scale(emit, data, steps.scale)), narrow(data, steps))


def narrow(data: Accumulator, steps: QuantParams) -> QuantParams:
    """Return the steps between the bounds of a sum."""
    low, high = (_round_bound(bound, steps) for bound in (data.low, data.high))
    return replace(steps, low=low, high=high)


def sum_up(emit: Emit, data: Accumulator) -> relax.Expr:
    """Return the numbers that a sum stands for, its bounds left out."""
    return _scale(emit, data, np.float32(1))


def _scale(emit: Emit, data: Accumulator, unit: Any) -> relax.Expr:
    """Return the sum, its bounds left out, in units. With a bias, the offset is a part of that."""
    value, ratio = data.value, np.asarray(data.scale / unit, np.float32)
    if data.bias is None and np.any(data.offset):
        value = emit(relax.op.add(value, constant(data.offset.astype(np.int32))))
    scaled = relax.op.multiply(emit(relax.op.astype(value, "float32")), constant(ratio))
    if data.bias is None:
        return scaled
    bias = (data.offset * data.scale.astype(np.float64) + data.bias) / unit
    return relax.op.add(emit(scaled), _number(bias))


def _clip(emit: Emit, data: relax.Expr, steps: QuantParams) -> relax.Expr:
    """Bound by one number after rounding, as an instruction does it; by channel before it, as whole numbers allow."""
    low, high = (bound - steps.zero for bound in (steps.low, steps.high))
    if np.ndim(high):
        data = emit(relax.op.minimum(data, _number(high)))
    if np.ndim(low):
        data = emit(relax.op.maximum(data, _number(low)))
    rounded = emit(relax.op.round(data))
    if steps.zero:
        rounded = emit(relax.op.add(rounded, _number(steps.zero)))
    if not np.ndim(low):
        rounded = emit(relax.op.maximum(rounded, _number(steps.low)))
    if not np.ndim(high):
        rounded = emit(relax.op.minimum(rounded, _number(steps.high)))
    return relax.op.astype(rounded, steps.dtype)


def _round_bound(bound: float, steps: QuantParams) -> Whole | int:
    """Return the integers that stand for the bound, or for what is nearest to it of those that there are."""
    rounded = np.rint(np.float32(bound) / steps.scale) + steps.zero
    return _unite(np.asarray(np.clip(rounded, steps.low, steps.high)).astype(np.int64))


def _unite(bounds: Whole) -> Whole | int:
    """Return one number where all channels have the same."""
    return int(bounds.flat[0]) if bounds.size and np.all(bounds == bounds.flat[0]) else bounds


def _number(value: Any) -> relax.Expr:
    return constant(np.asarray(value, np.float32))
