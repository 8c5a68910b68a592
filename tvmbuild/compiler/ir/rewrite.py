"""What the rewrites of the graph share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.modules import replace_main


def rewrite_main(mod: tvm.ir.IRModule, rewriter: PyExprMutator) -> tvm.ir.IRModule:
    """Return the module that ``rewriter`` was made for with its ``main`` rewritten, and the functions that it added."""
    function = rewriter.visit_expr(mod["main"])
    return replace_main(rewriter.builder_.get(), function)


CallRule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr | None]
"""What is written in place of a call, with the builder of the block that it is in; None to leave it."""


def rewrite_calls(mod: tvm.ir.IRModule, rule: CallRule) -> tvm.ir.IRModule:
    """Return the module with the rule applied to each call of ``main``, those in its arguments before."""
    return rewrite_main(mod, _CallRewriter(mod, rule))


@mutator
class _CallRewriter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, rule: CallRule) -> None:
        super().__init__(mod)
        self._rule = rule

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        result = self._rule(self.builder_, call)
        return call if result is None else result


def find_origin(rewriter: PyExprMutator, expr: relax.Expr) -> relax.Expr:
    """Return the first of the variables that are one another; the expression itself where it is none."""
    while isinstance(expr, relax.Var) and isinstance(found := rewriter.lookup_binding(expr), relax.Var):
        expr = found
    return expr


def list_variables(expr: relax.Expr) -> list[relax.Var]:
    """Return the variables that an expression uses, each once."""
    found: list[relax.Var] = []
    relax.analysis.post_order_visit(expr, lambda each: found.append(each) if isinstance(each, relax.Var) else None)
    return found


def count_uses(function: relax.Function) -> Counter[relax.Expr]:
    """Return in how many of the function's bindings each variable is used, its result counted as one more."""
    uses: Counter[relax.Expr] = Counter()
    for block in function.body.blocks:
        for binding in block.bindings:
            uses.update(list_variables(binding.value))
    uses.update(list_variables(function.body.body))
    return uses


Lookup = Callable[[relax.Var], relax.Expr | None]
"""From a variable to what it is bound to."""


def resolve(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Return what a variable is bound to, through variables that are one another; a parameter is itself."""
    while isinstance(expr, relax.Var) and (found := lookup(expr)) is not None:
        expr = found
    return expr


def bound_value(rewriter: PyExprMutator, expr: relax.Expr) -> relax.Expr:
    """Return what a variable was bound to just now; the expression itself where it is none."""
    found = rewriter.lookup_binding(expr) if isinstance(expr, relax.Var) else None
    return expr if found is None else found
