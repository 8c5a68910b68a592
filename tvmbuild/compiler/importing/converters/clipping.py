"""Clip and similar operators as minimum(maximum(x, low), high) with scalar constants.

TVM's importer emits Clip (ReLU6) as ``call_tir``, HardSigmoid and HardSwish with ``relax.clip``, LeakyRelu with
``relax.nn.leakyrelu``. None of these has layout inference, so ConvertLayout puts a transpose before and after each of
them, and Clip is not fused into the convolution before it.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import tvm
from tvm import relax

from tvmbuild.compiler.importing.converters.call import NodeCall

Bound: TypeAlias = relax.Expr | float | None
_BOUNDS_AS_INPUTS = 11
"""The first opset in which Clip takes its bounds as inputs."""


def convert_clip(call: NodeCall) -> relax.Expr:
    """Convert Clip, whose bounds are attributes or inputs and may be left out."""
    if call.opset < _BOUNDS_AS_INPUTS:
        return _clip(call, call.data, call.attributes.get("min"), call.attributes.get("max"))
    return _clip(call, call.data, call.inputs[1], call.inputs[2])


def convert_hard_sigmoid(call: NodeCall) -> relax.Expr:
    """Convert HardSigmoid to max(0, min(1, alpha * x + beta))."""
    alpha, beta = call.float("alpha", 0.2), call.float("beta", 0.5)
    line = call.emit(relax.op.add, call.emit(relax.op.multiply, call.data, call.number(alpha)), call.number(beta))
    return _clip(call, line, 0.0, 1.0)


def convert_hard_swish(call: NodeCall) -> relax.Expr:
    """Convert HardSwish to x * max(0, min(6, x + 3)) / 6."""
    clipped = _clip(call, call.emit(relax.op.add, call.data, call.number(3.0)), 0.0, 6.0)
    return relax.op.multiply(call.data, call.emit(relax.op.divide, clipped, call.number(6.0)))


def convert_leaky_relu(call: NodeCall) -> relax.Expr:
    """Convert LeakyRelu to maximum(x, alpha * x) if 0 < alpha <= 1, else with TVM's converter."""
    alpha = call.float("alpha", 0.01)
    if not 0 < alpha <= 1:
        return call.by_tvm()
    return relax.op.maximum(call.data, call.emit(relax.op.multiply, call.data, call.number(alpha)))


def _clip(call: NodeCall, data: relax.Expr, low: Bound, high: Bound) -> relax.Expr:
    """Clip ``data``; a bound is a number, an expression or None. A bound that is NaN or ±inf has no effect."""
    for bound, operator in ((low, relax.op.maximum), (high, relax.op.minimum)):
        scalar = _as_bound(call, bound)
        if scalar is not None:
            data = call.emit(operator, data, scalar)
    return data


def _as_bound(call: NodeCall, bound: Bound) -> relax.Expr | None:
    if bound is None:
        return None
    if isinstance(bound, tvm.ir.GenericConst):
        bound = bound.value.numpy().reshape(()).item()
    if not isinstance(bound, (int, float)):
        return bound
    return call.number(bound) if math.isfinite(bound) else None
