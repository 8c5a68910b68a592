"""Relax expressions: constants, static shapes, and the kinds of operators that fusing distinguishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

INJECTIVE, FUSABLE_WITH_ELEMENTWISE, OPAQUE = 2, 4, 8
"""Relax's kinds of operators (`op_pattern`): reads each element at one place; is fused with an elementwise operator
after it; is never fused."""


def constant(values: np.ndarray[Any, Any]) -> relax.Expr:
    """Return a constant of the array's own type: without a type, ``relax.const`` makes 32 bits of 64."""
    return relax.const(values, str(values.dtype))


def wide(*numbers: int) -> tuple[tirx.IntImm, ...]:
    """Return int64 constants, the type that Relax gives to shapes: indices of two types cannot be compared."""
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
    """Add a number to a tensor of bytes, and return the sum as bytes of type ``dtype``."""
    more = emit(relax.op.add(emit(relax.op.astype(value, "int16")), constant(np.int16(by))))
    return emit(relax.op.astype(more, dtype))


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Return the shape of a tensor; None for other values and for unknown shapes."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(each, tirx.IntImm) for each in shape.values):
        return None
    return tuple(int(each) for each in shape.values)
