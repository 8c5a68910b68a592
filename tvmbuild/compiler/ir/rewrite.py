"""What the rewrites of the graph share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.modules import keep_if_same, replace_main

Clean = Callable[[], tvm.transform.Pass]
"""Makes one of TVM's passes that tidies what a rewrite leaves behind."""
DROP_UNUSED: tuple[Clean, ...] = (relax.transform.DeadCodeElimination,)
DROP_ALIASES: tuple[Clean, ...] = (relax.transform.CanonicalizeBindings,)
TIDY: tuple[Clean, ...] = (*DROP_ALIASES, *DROP_UNUSED)
"""For rewriters that emit one variable that is another: FuseOps does not see through it."""


def rewrite_main(mod: tvm.ir.IRModule, rewriter: PyExprMutator, clean: Sequence[Clean] = ()) -> tvm.ir.IRModule:
    """Return the module that ``rewriter`` was made for with its ``main`` rewritten, and the functions that it added.

    The passes ``clean`` run where it changed anything; where it did not, the very module comes back. So it does where
    they leave nothing of the change.
    """
    function = rewriter.visit_expr(mod["main"])
    rewritten = keep_if_same(mod, replace_main(rewriter.builder_.get(), function))
    return mod if rewritten is mod else _clean(mod, rewritten, clean)


def _clean(mod: tvm.ir.IRModule, rewritten: tvm.ir.IRModule, clean: Sequence[Clean]) -> tvm.ir.IRModule:
    for each in clean:
        rewritten = each()(rewritten)
    return keep_if_same(mod, rewritten) if clean else rewritten


CallRule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr | None]
"""What is written in place of a call, with the builder of the block that it is in; None to leave it."""


def rewrite_calls(mod: tvm.ir.IRModule, rule: CallRule, clean: Sequence[Clean] = ()) -> tvm.ir.IRModule:
    """Return the module with the rule applied to each call of ``main``, those in its arguments before.

    As of `rewrite_main`, the very module comes back where no call is changed.
    """
    rewriter = _CallRewriter(mod, rule)
    function = rewriter.visit_expr(mod["main"])
    # Known without a comparison, which takes as long as the rule's look at all calls.
    return _clean(mod, replace_main(rewriter.builder_.get(), function), clean) if rewriter.has_fired else mod


@mutator
class _CallRewriter(PyExprMutator):  # type: ignore[misc]
    has_fired = False

    def __init__(self, mod: tvm.ir.IRModule, rule: CallRule) -> None:
        super().__init__(mod)
        self._rule = rule

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        result = self._rule(self.builder_, call)
        if result is None:
            return call
        self.has_fired = True
        return result
