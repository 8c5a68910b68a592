"""The pass that computes in integers from a dequantisation to the next quantisation.

The float32 operators between the two stay in the graph only if another operator needs them.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_main
from tvmbuild.compiler.passes.int8 import accumulators, moves, rounding
from tvmbuild.compiler.passes.int8.ledger import Ledger, Rule

_RULES: Mapping[str, Rule] = {**rounding.RULES, **accumulators.RULES, **moves.RULES}


def lower_qdq_to_int8(mod: tvm.ir.IRModule, *, signed: bool = False, plain: bool = False) -> tvm.ir.IRModule:
    """Compute in integers from each dequantisation to the next quantisation; a module without them stays as it is.

    If ``signed``, products and dense convolutions take their data as int8, as the target's dot instruction needs them.
    If ``plain``, the target has no dot instruction. Groups of several channels, transposed convolutions and products of
    two activations then stay in floats, because only their float versions have register tiles.
    """
    if not operator_calls(mod, "relax.dequantize"):
        return mod
    return rewrite_main(mod, _LowerQdqToInt8(mod, signed=signed, plain=plain), TIDY)


@mutator
class _LowerQdqToInt8(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, *, signed: bool, plain: bool) -> None:
        super().__init__(mod)
        self._ledger = Ledger(self, wants_signed=signed, is_plain=plain)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        rule = _RULES.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        result = None if rule is None else rule(self._ledger, call)
        return call if result is None else result

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        return moves.pick(self._ledger, super().visit_tuple_getitem_(item))
