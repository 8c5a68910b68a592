"""Rows taken from constant weights, in place of the one-hot product that exporters write for an embedding."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call, operator_name
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.op_sets import ROW_COMPUTABLE
from tvmbuild.compiler.ir.rewrite import rewrite_main
from tvmbuild.compiler.passes.fold_constants import fold_constants
from tvmbuild.compiler.remarks import missed


def one_hot_to_take(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace each product of a one-hot matrix and constant weights by a `take` of rows of the weights.

    Later operators that combine the rows with constants are computed on the weights, when the package is built.
    """
    rewritten = rewrite_main(mod, _OneHotToTake(mod))
    return mod if rewritten is mod else relax.transform.DeadCodeElimination()(fold_constants(rewritten))


@mutator
class _OneHotToTake(PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        taken = None
        if is_call(call, "relax.matmul"):
            taken = self._take(call)
        elif isinstance(call.op, tvm.ir.Op) and call.op.name in ROW_COMPUTABLE:
            taken = self._take_computed(call)
        return call if taken is None else taken

    def _take(self, product: relax.Call) -> relax.Expr | None:
        one_hot, weights = resolve(self.lookup_binding, product.args[0]), product.args[1]
        comparison = resolve(self.lookup_binding, one_hot.args[0]) if is_call(one_hot, "relax.astype") else None
        if comparison is None or not is_call(comparison, "relax.equal"):
            return None
        if not _is_finite_matrix(weights):
            return missed("its weights are not a constant matrix of finite float32")
        values = weights.value.numpy()
        for numbers, counted in (comparison.args, comparison.args[::-1]):
            shape = static_shape(numbers)
            if shape and shape[-1] == 1 and _counts_to(counted, len(values), len(shape)):
                # A number without a row gives zeros: it is clipped to the first or the last row of the table, which are
                # zeros.
                rows = self.builder_.emit(relax.op.reshape(numbers, shape[:-1]))
                rows = self.builder_.emit(relax.op.add(rows, relax.const(1, str(numbers.ty.dtype))))
                table = constant(np.pad(values, ((1, 1), (0, 0))))
                return relax.op.take(table, rows, axis=0, mode="clip")
        return missed(f"its numbers are not compared with 0, 1, 2 and so on, up to {len(values)}")

    def _take_computed(self, call: relax.Call) -> relax.Expr | None:
        """Return the call as rows taken from a computed table, or None if this is impossible.

        Its arguments must be constants, or rows taken from tables by the same indices.
        """
        values = [resolve(self.lookup_binding, argument) for argument in call.args]
        takes = [value for value in values if is_call(value, "relax.take") and value.attrs.mode == "clip"]
        if not takes:
            return None
        if not all(take.args[1].same_as(takes[0].args[1]) for take in takes):
            return missed(f"{operator_name(call)} is of rows that are taken by different numbers")
        width = int(takes[0].args[0].ty.shape.values[1])
        arguments = []
        for value in values:
            table = value.args[0] if any(value.same_as(take) for take in takes) else _as_row(value, width)
            if table is None:
                return missed(f"{operator_name(call)} is by what differs from row to row")
            arguments.append(table)
        table = self.builder_.emit(relax.Call(call.op, arguments, call.attrs))
        return relax.op.take(table, takes[0].args[1], axis=0, mode="clip")


def _is_finite_matrix(expr: relax.Expr) -> bool:
    if not isinstance(expr, tvm.ir.GenericConst):
        return False
    values = expr.value.numpy()
    return values.ndim == 2 and values.dtype == np.float32 and bool(np.isfinite(values).all())


def _counts_to(expr: relax.Expr, number: int, rank: int) -> bool:
    """Return whether the expression is a constant of at most ``rank`` axes with the values 0, 1, …, ``number`` - 1.

    The values must be along its last axis.
    """
    if not isinstance(expr, tvm.ir.GenericConst):
        return False
    values = expr.value.numpy()
    counts = values.ndim in range(1, rank + 1) and values.size == number == values.shape[-1]
    return counts and bool((values.ravel() == np.arange(number)).all())


def _as_row(expr: relax.Expr, width: int) -> relax.Expr | None:
    """Return a constant that is the same for all rows as one row of ``width`` elements or as one element; else None."""
    if not isinstance(expr, tvm.ir.GenericConst):
        return None
    values = expr.value.numpy()
    if values.size not in (1, width) or (values.size > 1 and values.shape[-1] != width):
        return None
    return constant(values.reshape(values.shape[-1:]))
