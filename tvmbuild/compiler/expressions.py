"""Relax expressions: constants, static shapes, and the kinds of operators that fusing tells apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx

FUSABLE_WITH_ELEMENTWISE, OPAQUE = 4, 8
"""Relax's kinds of operators (`op_pattern`): what an elementwise one after it is fused with, what nothing is."""


def constant(values: np.ndarray[Any, Any]) -> relax.Expr:
    """Return a constant of the array's own type: ``relax.const`` makes 32 bits of 64 where no type is named."""
    return relax.const(values, str(values.dtype))


def wide(*numbers: int) -> tuple[tirx.IntImm, ...]:
    """Return constants of the type that Relax gives to shapes: indices of two types cannot be compared."""
    return tuple(tirx.IntImm("int64", number) for number in numbers)


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Return the shape of a tensor; None for other values and where it is not known."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(each, tirx.IntImm) for each in shape.values):
        return None
    return tuple(int(each) for each in shape.values)
