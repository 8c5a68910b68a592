"""The drivers that graph rewrites share: apply a rewriter or a rule to ``main``, then tidy up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.modules import keep_if_same, replace_main

Clean = Callable[[], tvm.transform.Pass]
"""A constructor of a TVM pass that tidies up after a rewrite."""
DROP_UNUSED: tuple[Clean, ...] = (relax.transform.DeadCodeElimination,)
DROP_ALIASES: tuple[Clean, ...] = (relax.transform.CanonicalizeBindings,)
TIDY: tuple[Clean, ...] = (*DROP_ALIASES, *DROP_UNUSED)
"""The passes for rewriters that bind one variable to another: FuseOps does not see through these aliases."""


def rewrite_main(mod: tvm.ir.IRModule, rewriter: PyExprMutator, clean: Sequence[Clean] = ()) -> tvm.ir.IRModule:
    """Return the module with ``main`` rewritten by ``rewriter``, and with the functions that the rewriter added.

    The passes ``clean`` run if the rewriter changed anything. The same module object is returned if nothing changed, or
    if these passes undo every change.
    """
    function = rewriter.visit_expr(mod["main"])
    rewritten = keep_if_same(mod, replace_main(rewriter.builder_.get(), function))
    return mod if rewritten is mod else _clean(mod, rewritten, clean)


def _clean(mod: tvm.ir.IRModule, rewritten: tvm.ir.IRModule, clean: Sequence[Clean]) -> tvm.ir.IRModule:
    for each in clean:
        rewritten = each()(rewritten)
    return keep_if_same(mod, rewritten) if clean else rewritten


CallRule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr | None]
"""A function that returns the replacement of a call, or None to keep the call.

Its block builder emits bindings into the block of the call.
"""


def rewrite_calls(mod: tvm.ir.IRModule, rule: CallRule, clean: Sequence[Clean] = ()) -> tvm.ir.IRModule:
    """Return the module with the rule applied to each call in ``main``, first to the calls in its arguments.

    The passes ``clean`` run if the rule changed a call. If it changed none, the same module object is returned.
    """
    rewriter = _CallRewriter(mod, rule)
    function = rewriter.visit_expr(mod["main"])
    # The flag saves a comparison, which takes as long as the rule's look at all calls.
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
