"""What the rewrites of the graph share."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator


def rewrite_main(mod: tvm.ir.IRModule, rewriter: PyExprMutator) -> tvm.ir.IRModule:
    """Return the module that ``rewriter`` was made for with its ``main`` rewritten, and the functions that it added."""
    function = rewriter.visit_expr(mod["main"])
    result = rewriter.builder_.get()
    result.update_func(result.get_global_var("main"), function)
    return result


def find_origin(rewriter: PyExprMutator, expr: relax.Expr) -> relax.Expr:
    """Return the first of the variables that are one another; the expression itself where it is none."""
    while isinstance(expr, relax.Var) and isinstance(found := rewriter.lookup_binding(expr), relax.Var):
        expr = found
    return expr


def bound_value(rewriter: PyExprMutator, expr: relax.Expr) -> relax.Expr:
    """Return what a variable was bound to just now; the expression itself where it is none."""
    found = rewriter.lookup_binding(expr) if isinstance(expr, relax.Var) else None
    return expr if found is None else found
