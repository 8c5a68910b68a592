"""Relax expressions: constants, static shapes, and the kinds of operators that fusing distinguishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

INJECTIVE, FUSABLE_WITH_ELEMENTWISE, OPAQUE = 2, 4, 8
"""TVM's kinds of operators (attribute `op_pattern`): an injective operator computes each element from one element of
an input; the second kind can be fused with elementwise operators that follow it; the third is never fused."""

COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
"""TVM's classes of comparisons."""


def constant(values: np.ndarray[Any, Any]) -> relax.Expr:
    """Return a Relax constant with the array's own dtype; without a dtype, ``relax.const`` turns 64 bits into 32."""
    return relax.const(values, str(values.dtype))


def wide(*numbers: int) -> tuple[tirx.IntImm, ...]:
    """Return the numbers as int64 constants: Relax's shapes are int64, and TVM cannot compare indices of two types."""
    return tuple(int64(number) for number in numbers)


def int64(value: int) -> tirx.IntImm:
    """Return an int64 constant."""
    return tirx.IntImm("int64", value)


def int32(value: int) -> tirx.IntImm:
    """Return an int32 constant."""
    return tirx.IntImm("int32", value)


def float32(value: float) -> tirx.FloatImm:
    """Return a float32 constant."""
    return tirx.FloatImm("float32", value)


def substitute(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return the expression with variables replaced by values."""
    return tvm_ffi.structural_map(expr, (tvm.ir.Var, lambda var: values.get(var, var)))


def shift(emit: Callable[[relax.Expr], relax.Expr], value: relax.Expr, by: int, dtype: str) -> relax.Expr:
    """Add ``by`` to an int8 or uint8 tensor in int16, and return the sum cast to ``dtype``, int8 or uint8."""
    more = emit(relax.op.add(emit(relax.op.astype(value, "int16")), constant(np.int16(by))))
    return emit(relax.op.astype(more, dtype))


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Return the shape of a tensor, or None if the value is not a tensor or its shape is not static."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(each, tirx.IntImm) for each in shape.values):
        return None
    return tuple(int(each) for each in shape.values)
