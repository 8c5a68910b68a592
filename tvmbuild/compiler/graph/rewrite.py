"""What the rewrites of the graph share."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator

FUSABLE_WITH_ELEMENTWISE, OPAQUE = 4, 8
"""Relax's kinds of operators (`op_pattern`): what an elementwise one after it is fused with, what nothing is."""


def rewrite_main(mod: tvm.ir.IRModule, rewriter: PyExprMutator) -> tvm.ir.IRModule:
    """Return the module that ``rewriter`` was made for with its ``main`` rewritten, and the functions that it added."""
    function = rewriter.visit_expr(mod["main"])
    result = rewriter.builder_.get()
    result.update_func(result.get_global_var("main"), function)
    return result


def constant(values: np.ndarray[Any, Any]) -> relax.Expr:
    """Return a constant of the array's own type: ``relax.const`` makes 32 bits of 64 where no type is named."""
    return relax.const(values, str(values.dtype))


def bound_value(rewriter: PyExprMutator, expr: relax.Expr) -> relax.Expr:
    """Return what a variable was bound to just now; the expression itself where it is none."""
    found = rewriter.lookup_binding(expr) if isinstance(expr, relax.Var) else None
    return expr if found is None else found


def static_shape(expr: relax.Expr) -> tuple[int, ...] | None:
    """Return the shape of a tensor; None for other values and where it is not known."""
    shape = getattr(expr.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(each, tirx.IntImm) for each in shape.values):
        return None
    return tuple(int(each) for each in shape.values)
