"""Relax expressions: constants, static shapes, and the kinds of operators that fusing tells apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

INJECTIVE, FUSABLE_WITH_ELEMENTWISE, OPAQUE = 2, 4, 8
"""Relax's kinds of operators (`op_pattern`): what reads each element at one place, what an elementwise one after it is
fused with, what nothing is."""


def constant(values: np.ndarray[Any, Any]) -> relax.Expr:
    """Return a constant of the array's own type: ``relax.const`` makes 32 bits of 64 where no type is named."""
    return relax.const(values, str(values.dtype))


def wide(*numbers: int) -> tuple[tirx.IntImm, ...]:
    """Return constants of the type that Relax gives to shapes: indices of two types cannot be compared."""
    return tuple(int64(number) for number in numbers)


def int64(value: int) -> tirx.IntImm:
    """Return such a constant."""
    return tirx.IntImm("int64", value)


def int32(value: int) -> tirx.IntImm:
    """Return a constant of that type."""
    return tirx.IntImm("int32", value)


def float32(value: float) -> tirx.FloatImm:
    """Return a constant of that type."""
    return tirx.FloatImm("float32", value)


def substitute(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return the expression with values in the place of variables."""
    return tvm_ffi.structural_map(expr, (tvm.ir.Var, lambda var: values.get(var, var)))


def shift(emit: Callable[[relax.Expr], relax.Expr], value: relax.Expr, by: int, dtype: str) -> relax.Expr:
    """Return bytes with a number added, as bytes of that type."""
    more = emit(relax.op.add(emit(relax.op.astype(value, "int16")), constant(np.int16(by))))
    return emit(relax.op.astype(more, dtype))


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Return the shape of a tensor; None for other values and where it is not known."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(each, tirx.IntImm) for each in shape.values):
        return None
    return tuple(int(each) for each in shape.values)
