"""Scalars in place of constants of one element: a tensor of shape [1] beside NHWC data costs two transposes.

ConvertLayout cannot convert a tensor whose rank differs from the rank of the data. It therefore converts the data back
to NCHW for the operator and to NHWC after it, and the operator is not fused with the convolution before it. A scalar
has no layout.

A division by a scalar becomes a multiplication: the division of a vector takes as long as 30 additions. A division
stays if a later operator rounds its result: 41 / 41 is 1, but 41 · (1 / 41) is less than 1, and its floor is 0.
A division by 0 is the same as the multiplication by infinity, and TVM 0.27 refuses to compile it.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.expressions import constant
from tvmbuild.compiler.ir.rewrite import rewrite_main
from tvmbuild.compiler.passes.discontinuities import find_rounded
from tvmbuild.compiler.remarks import missed

_OPERATORS = frozenset(
    f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
)


def make_scalar_constants(mod: tvm.ir.IRModule, *, quantised: bool) -> tvm.ir.IRModule:
    """Turn constant operands of one element into scalars, if that changes no shape.

    A division of floats by a scalar becomes a multiplication by its reciprocal. The last bit of the result may differ.
    A division therefore stays if a later operator, for example a rounding, may turn that bit into another number.
    Roundings to bytes do not count if the model is ``quantised``.
    """
    return rewrite_main(mod, _ScalarConstants(mod, find_rounded(mod["main"], quantised=quantised)))


@mutator
class _ScalarConstants(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, rounded: set[relax.Var]) -> None:
        super().__init__(mod)
        self._rounded, self._is_exact = rounded, False

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._is_exact = binding.var in self._rounded
        super().visit_var_binding_(binding)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        if not isinstance(call.op, tvm.ir.Op) or call.op.name not in _OPERATORS:
            return call
        left, right = call.args
        if _is_one_element(left) and _rank(right) >= _rank(left):
            left = constant(left.value.numpy().reshape(()))
        elif _is_one_element(right) and _rank(left) >= _rank(right):
            right = constant(right.value.numpy().reshape(()))
        elif self._is_exact and _is_division_by_scalar(call) and not _is_by_zero(call):
            missed("what it divides is rounded further on, where a last bit decides")
            return call
        elif not _is_division_by_scalar(call):
            return call
        scaled = relax.Call(call.op, [left, right], call.attrs, call.ty_args)
        if _is_division_by_scalar(scaled) and (not self._is_exact or _is_by_zero(scaled)):
            return _multiply(scaled)
        return scaled


def _is_division_by_scalar(call: relax.Call) -> bool:
    """Return whether the call divides floats by a constant scalar that has a reciprocal; that of 0 is infinity."""
    if call.op.name != "relax.divide":
        return False
    by = call.args[1]
    if not isinstance(by, tvm.ir.GenericConst) or _rank(by) > 0 or "float" not in str(by.ty.dtype):
        return False
    value = by.value.numpy()
    with np.errstate(divide="ignore", over="ignore"):
        return bool(value == 0 or (np.isfinite(1 / value) and abs(1 / value) >= np.finfo(value.dtype).tiny))


def _is_by_zero(division: relax.Call) -> bool:
    return bool(division.args[1].value.numpy() == 0)


def _multiply(division: relax.Call) -> relax.Expr:
    value = division.args[1].value.numpy()
    with np.errstate(divide="ignore"):
        return relax.op.multiply(division.args[0], constant((1 / value).astype(value.dtype)))


def _is_one_element(expr: relax.Expr) -> bool:
    return isinstance(expr, tvm.ir.GenericConst) and _rank(expr) > 0 and all(int(n) == 1 for n in expr.value.shape)


def _rank(expr: relax.Expr) -> int:
    return int(expr.ty.ndim)
