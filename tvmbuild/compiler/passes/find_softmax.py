"""One softmax operator in place of its formula: softmax reads a row once, and FuseAttention looks for softmax."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_main
from tvmbuild.compiler.remarks import missed


def find_softmax(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace each exp(x - max(x)) / sum(exp(x - max(x))) along one axis by a softmax of x."""
    if not operator_calls(mod, "relax.exp"):
        return mod
    return rewrite_main(mod, _FindSoftmax(mod), DROP_UNUSED)


@mutator
class _FindSoftmax(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not is_call(call, "relax.divide"):
            return call
        powers, total = (resolve(self.lookup_binding, argument) for argument in call.args)
        if not (is_call(powers, "relax.exp") and is_call(total, "relax.sum") and total.args[0].same_as(call.args[0])):
            return call
        moved = resolve(self.lookup_binding, powers.args[0])
        largest = resolve(self.lookup_binding, moved.args[1]) if is_call(moved, "relax.subtract") else None
        if largest is None or not is_call(largest, "relax.max") or not largest.args[0].same_as(moved.args[0]):
            if is_call(largest, "relax.call_tir"):
                missed("its maximum is a function of its own, which may meet infinities")
            else:
                missed("what is taken off its exponents is not their maximum")
            return call
        axes = {_one_axis(each) for each in (largest, total)}
        axis = axes.pop()
        if axes or axis is None:
            missed("its maximum and its sum are not along one and the same axis, which stays")
            return call
        return relax.op.nn.softmax(moved.args[0], axis)


def _one_axis(reduction: relax.Call) -> int | None:
    """Return the axis of a reduction along one axis that stays with length 1, or None for any other reduction."""
    shape, axes = static_shape(reduction.args[0]), reduction.attrs.axis
    if shape is None or not reduction.attrs.keepdims or axes is None or len(axes) != 1:
        return None
    return int(axes[0]) % len(shape)
