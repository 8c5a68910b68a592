"""Sums of products in int32, and what is done to them before they are rounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.passes.int8.int_matmul import convolve, is_depthwise, multiply, multiply_both
from tvmbuild.compiler.passes.int8.ledger import Ledger, Rule
from tvmbuild.compiler.passes.int8.quant_ops import sum_up
from tvmbuild.compiler.passes.int8.quant_params import (
    MAX_OF_BIAS,
    MOST,
    Accumulator,
    ByChannel,
    Quantised,
    QuantizedConstant,
)
from tvmbuild.compiler.passes.int8.rounding import sign
from tvmbuild.compiler.passes.int8.transposed import convolve_transposed


def _convolve(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    def compute(data: Quantised | ByChannel, weights: QuantizedConstant) -> Accumulator | None:
        groups = int(call.attrs.groups)
        is_dense = not is_depthwise(weights.values.shape, groups)
        if ledger.is_plain and is_dense and groups > 1:
            return None
        if ledger.wants_signed and is_dense and isinstance(data, Quantised):
            data = sign(ledger, data)
        return convolve(ledger.emit, call, data, weights)

    return _product(ledger, call, compute)


def _convolve_transposed(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    def compute(data: Quantised | ByChannel, weights: QuantizedConstant) -> Accumulator | None:
        if ledger.is_plain or isinstance(data, ByChannel):
            return None
        return convolve_transposed(ledger.emit, call, sign(ledger, data) if ledger.wants_signed else data, weights)

    return _product(ledger, call, compute)


def _multiply(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    left, right = (ledger.find(each) for each in call.args)
    if isinstance(left, Quantised) and isinstance(right, Quantised):
        if ledger.is_plain:
            return None
        first = sign(ledger, left) if ledger.wants_signed else left
        return _keep(ledger, multiply_both(ledger.emit, first, sign(ledger, right)))

    def compute(data: Quantised | ByChannel, weights: QuantizedConstant) -> Accumulator | None:
        if isinstance(data, ByChannel):
            return None
        return multiply(ledger.emit, sign(ledger, data) if ledger.wants_signed else data, weights)

    return _product(ledger, call, compute)


def _product(
    ledger: Ledger, call: relax.Call, compute: Callable[[Quantised | ByChannel, QuantizedConstant], Accumulator | None]
) -> relax.Expr | None:
    data, weights = (ledger.find(each) for each in call.args)
    if not isinstance(data, Quantised | ByChannel) or not isinstance(weights, QuantizedConstant):
        return None
    return _keep(ledger, compute(data, weights))


def _keep(ledger: Ledger, made: Accumulator | None) -> relax.Expr | None:
    return None if made is None else ledger.track(sum_up(ledger.emit, made), made)


def _add(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    """Take a constant that is added, a bias, as a number of the sum's steps."""
    for one, other in (call.args, reversed(call.args)):
        found, bias = ledger.find(one), ledger.read_number(other)
        if isinstance(found, Accumulator) and bias is not None and not found.is_bounded:
            return _add_bias(ledger, call, found, bias)
    return None


def _add_bias(ledger: Ledger, call: relax.Call, found: Accumulator, bias: np.ndarray[Any, Any]) -> relax.Expr | None:
    if static_shape(call) != static_shape(found.value):
        return None
    shape = np.broadcast_shapes(found.offset.shape, found.scale.shape)
    own = _drop_leading_ones(bias, len(shape))
    with np.errstate(all="ignore"):  # weights of nothing but zeros may have any scale
        steps = np.rint(own.astype(np.float64) / found.scale)
    if steps.size > max(int(np.prod(shape)), 1) or not np.all(np.isfinite(own)):
        return None
    offset = found.offset + steps
    if not np.all(np.abs(steps) < MAX_OF_BIAS) or not np.all(np.abs(offset) < MOST):
        before = np.float32(0) if found.bias is None else found.bias
        return ledger.track(call, replace(found, bias=np.asarray(before + own, np.float32)))
    return ledger.track(call, replace(found, offset=offset.astype(np.int64)))


def _bound(
    ledger: Ledger, call: relax.Call, low: float, high: float, data: relax.Expr | None = None
) -> relax.Expr | None:
    found = ledger.find(call.args[0] if data is None else data)
    if not isinstance(found, Accumulator):
        return None
    low, high = (min(max(each, low), high) for each in (found.low, found.high))
    return ledger.track(call, replace(found, low=low, high=high))


def _relu(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    return _bound(ledger, call, 0.0, float("inf"))


def _clip(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    low, high = (float(each.value) if hasattr(each, "value") else None for each in call.args[1:])
    return None if low is None or high is None else _bound(ledger, call, low, high)


def _maximum(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    return _bound_by(ledger, call, lambda number: (number, float("inf")))


def _minimum(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    return _bound_by(ledger, call, lambda number: (float("-inf"), number))


def _bound_by(ledger: Ledger, call: relax.Call, bounds: Callable[[float], tuple[float, float]]) -> relax.Expr | None:
    """Take a constant of one number, on either side, as a bound."""
    for one, other in (call.args, reversed(call.args)):
        number = _read_one(ledger, other)
        if number is not None and (made := _bound(ledger, call, *bounds(number), one)) is not None:
            return made
    return None


def _take_factor(ledger: Ledger, call: relax.Call) -> relax.Expr | None:
    """Take one positive number that integers are multiplied by, as `alpha` of Gemm, as a part of their steps."""
    for one, other in (call.args, reversed(call.args)):
        found, factor = ledger.find(one), _read_one(ledger, other)
        if isinstance(found, Quantised) and factor is not None and factor > 0:
            scale = np.float32(found.scale * np.float32(factor))
            if np.isfinite(scale) and scale > 0:
                return ledger.track(call, replace(found, scale=scale))
    return None


def _read_one(ledger: Ledger, expr: relax.Expr) -> float | None:
    """Return a constant of one number; NaN bounds nothing here."""
    value = ledger.read_constant(expr)
    return None if value is None or value.ndim or np.isnan(value) else float(value)


def _drop_leading_ones(array: np.ndarray[Any, Any], rank: int) -> np.ndarray[Any, Any]:
    while array.ndim > rank and array.shape[0] == 1:
        array = array[0]
    return array


RULES: Mapping[str, Rule] = {
    "relax.nn.conv2d": _convolve,
    "relax.nn.conv2d_transpose": _convolve_transposed,
    "relax.matmul": _multiply,
    "relax.multiply": _take_factor,
    "relax.add": _add,
    "relax.nn.relu": _relu,
    "relax.clip": _clip,
    "relax.maximum": _maximum,
    "relax.minimum": _minimum,
}
