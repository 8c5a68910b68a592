"""What the rewrites of the graph share."""

from __future__ import annotations

import tvm
from tvm.relax.expr_functor import PyExprMutator

FUSABLE_WITH_ELEMENTWISE, OPAQUE = 4, 8
"""Relax's kinds of operators (`op_pattern`): what an elementwise one after it is fused with, what nothing is."""


def rewrite_main(mod: tvm.ir.IRModule, rewriter: PyExprMutator) -> tvm.ir.IRModule:
    """Return the module that ``rewriter`` was made for with its ``main`` rewritten, and the functions that it added."""
    function = rewriter.visit_expr(mod["main"])
    result = rewriter.builder_.get()
    result.update_func(result.get_global_var("main"), function)
    return result
