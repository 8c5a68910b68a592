"""One combined product in place of the products of one tensor that make query, key and value.

This saves calls, makes tiles wider, and reads the tensor once. Attention reads the parts of the combined product in
place. The biases of the parts are added to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import DefUse, resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_main
from tvmbuild.compiler.passes.attention.pattern import Pattern
from tvmbuild.compiler.passes.attention.sources import find_source

Values = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Projection:
    """The projection ``data`` · ``weights`` + ``bias``, which is bound to a variable as ``value``."""

    value: relax.Expr
    data: relax.Expr
    weights: Values
    bias: Values
    out_dtype: Any
    """The result type that the product states."""

    def agrees_with(self, other: _Projection) -> bool:
        """Return whether one product can compute both."""
        return bool(self.data.same_as(other.data)) and str(self.out_dtype) == str(other.out_dtype)


def combine_projections(mod: tvm.ir.IRModule, graph: DefUse, patterns: Sequence[Pattern]) -> tvm.ir.IRModule:
    """Combine the products that make query, key and value of an attention if they read the same tensor."""
    groups = [group for pattern in patterns for group in _group(graph, pattern)]
    if not groups:
        return mod
    return rewrite_main(mod, _Projections(mod, groups), TIDY)


@mutator
class _Projections(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, groups: Sequence[Sequence[_Projection]]) -> None:
        super().__init__(mod)
        self._groups = {hash(each.value): group for group in groups for each in group}
        self._parts: dict[int, relax.Var] = {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        part = self._part(call)
        return super().visit_call_(call) if part is None else part

    def visit_tuple_getitem_(self, item: relax.TupleGetItem) -> relax.Expr:
        part = self._part(item)
        return super().visit_tuple_getitem_(item) if part is None else part

    def _part(self, value: relax.Expr) -> relax.Expr | None:
        group = self._groups.get(hash(value))
        if group is None:
            return None
        first = hash(group[0].value)
        if first not in self._parts:
            self._parts[first] = self._combine(group)
        places = [hash(each.value) for each in group]
        return relax.TupleGetItem(self._parts[first], places.index(hash(value)))

    def _combine(self, group: Sequence[_Projection]) -> relax.Var:
        weights = np.concatenate([each.weights for each in group], axis=1)
        bias = np.concatenate([each.bias for each in group])
        product = self.builder_.emit(
            relax.op.matmul(self.visit_expr(group[0].data), constant(weights), group[0].out_dtype)
        )
        if bias.any():
            product = self.builder_.emit(relax.op.add(product, constant(bias)))
        ends = np.cumsum([each.weights.shape[1] for each in group])[:-1]
        return self.builder_.emit(relax.op.split(product, [int(end) for end in ends], axis=-1))


def _group(graph: DefUse, pattern: Pattern) -> list[list[_Projection]]:
    """Return the projections of an attention that read one tensor, in groups of two or three."""
    groups: list[list[_Projection]] = []
    for expr, scaled in ((pattern.scores.query, True), (pattern.scores.key, True), (pattern.value, False)):
        source = find_source(graph.lookup, expr, scaled=scaled)
        found = None if source is None else _find_projection(graph, source.tensor)
        if found is None:
            continue
        others = next((group for group in groups if found.agrees_with(group[0])), None)
        if others is None:
            groups.append([found])
        elif not any(each.value.same_as(found.value) for each in others):  # else one product already makes all
            others.append(found)
    return [group for group in groups if len(group) > 1]


def _find_projection(graph: DefUse, expr: relax.Expr) -> _Projection | None:
    value = graph.used(expr)
    if value is None:
        return None
    found = _find_product(graph, value)
    if found is not None:
        data, weights, out_dtype = found
        return _Projection(value, data, weights, np.zeros(weights.shape[1], weights.dtype), out_dtype)
    if not is_call(value, "relax.add"):
        return None
    for product, other in (value.args, value.args[::-1]):
        inner = graph.used(product)
        found = None if inner is None else _find_product(graph, inner)
        if found is not None and isinstance(other, tvm.ir.GenericConst):
            data, weights, out_dtype = found
            bias = other.value.numpy()
            if bias.shape[-1:] == weights.shape[1:] and bias.size == weights.shape[1]:
                return _Projection(value, data, weights, bias.reshape(-1), out_dtype)
    return None


def _find_product(graph: DefUse, value: relax.Expr) -> tuple[relax.Expr, Values, Any] | None:
    """Return (data, weights, stated result type) of a product with a constant matrix or some of its columns."""
    if isinstance(value, relax.TupleGetItem):
        split = resolve(graph.lookup, value.tuple_value)
        product = graph.find(split.args[0], "matmul") if is_call(split, "relax.split") else None
        found = None if product is None else _find_product(graph, product)
        if found is None or int(split.attrs.axis) not in {-1, len(static_shape(product) or ()) - 1}:
            return None
        widths = [int(part.shape.values[-1]) for part in split.ty.fields]
        begin = sum(widths[: value.index])
        return found[0], found[1][:, begin : begin + widths[value.index]], found[2]
    if not is_call(value, "relax.matmul") or not isinstance(value.args[1], tvm.ir.GenericConst):
        return None
    weights = value.args[1].value.numpy()
    types = {str(each.ty.dtype) for each in (*value.args, value)}
    return (value.args[0], weights, value.attrs.out_dtype) if weights.ndim == 2 and len(types) == 1 else None
