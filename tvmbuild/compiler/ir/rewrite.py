"""What the rewrites of the graph share."""

from __future__ import annotations

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
