"""Attention as exporters write it in Relax operators: products, a scale, masks, softmax, and the removal of NaN."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, operator_name
from tvmbuild.compiler.ir.def_use import DefUse, resolve
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.op_sets import ELEMENTWISE, MOVES
from tvmbuild.compiler.passes.attention.sources import scalar

_FLOATS = frozenset({"float32", "float16"})


@dataclass(frozen=True)
class MaskOf:
    """A mask in the graph.

    If ``fill`` is None, ``tensor`` is added to the scores. Otherwise ``tensor`` is Boolean, and ``fill`` replaces the
    scores whose mask element differs from ``keeps``.
    """

    tensor: relax.Expr
    shape: tuple[int, ...]
    """The shape of the masked scores."""
    fill: float | None = None
    keeps: bool = True
    factor: float = 1.0
    """The factor of an added tensor, if the scores are scaled after the addition."""

    def times(self, number: float) -> MaskOf:
        """Return the mask for scores that are multiplied by ``number`` after the mask."""
        if self.fill is None:
            return replace(self, factor=self.factor * number)
        return replace(self, fill=self.fill * number)


@dataclass(frozen=True)
class Scores:
    """The scores of an attention, which are the input of its softmax."""

    query: relax.Expr
    """The query, […, rows, depth]."""
    key: relax.Expr
    """The transposed key, […, depth, keys]."""
    shape: tuple[int, ...]
    scale: float = 1.0
    masks: tuple[MaskOf, ...] = ()
    cap: float | None = None
    """The softcap: before masks, the scaled scores become cap · tanh(score)."""

    def times(self, number: float) -> Scores:
        """Return the scores multiplied by ``number``."""
        masks = tuple(mask.times(number) for mask in self.masks)
        if self.cap is None:
            return replace(self, scale=self.scale * number, masks=masks)
        return replace(self, cap=self.cap * number, masks=masks)


@dataclass(frozen=True)
class Pattern:
    """An attention in the graph; ``product`` is its last call, the product of weights and value."""

    product: relax.Call
    scores: Scores
    value: relax.Expr
    """The value, […, keys, width]."""
    nan_is_zero: bool


_BETWEEN = ELEMENTWISE | MOVES | {"relax.clip"}
"""Operators that exporters put, or may put, between the products and the softmax."""


class NotAttentionError(Exception):
    """The reason why a softmax between two products is not attention."""


def match(graph: DefUse, product: relax.Call) -> Pattern | None:
    """Return the attention that ends with this product, or None if the product follows no softmax of another product.

    Raises NotAttentionError with the obstacle, for example an intermediate result that another operator uses.
    """
    if not _comes_from(graph, product.args[0], "relax.nn.softmax", "relax.matmul"):
        return None
    if str(product.ty.dtype) not in _FLOATS or len(static_shape(product) or ()) < 2:
        raise NotAttentionError(f"its second product is of {product.ty.dtype} in {product.ty.ndim} axes")
    weights, nan_is_zero = _match_weights(graph, product.args[0])
    scores = _match_scores(graph, weights.args[0])
    if (static_shape(product.args[0]) or ())[-2:] != scores.shape[-2:]:
        raise NotAttentionError("its second product has the weights in another shape than the first one gives")
    if any(mask.shape[-2:] != scores.shape[-2:] for mask in scores.masks):
        raise NotAttentionError("a mask is of the scores in another shape than the product gives")
    return Pattern(product, scores, product.args[1], nan_is_zero)


def _comes_from(graph: DefUse, expr: relax.Expr, name: str, *before: str) -> bool:
    """Return whether a call of ``name`` leads to the expression, and calls of the operators ``before`` to that call.

    Only operators of `_BETWEEN` may be between these calls.
    """
    left, seen = [expr], set[int]()
    while left:
        value = resolve(graph.lookup, left.pop())
        if is_call(value, name) and (not before or _comes_from(graph, value.args[0], *before)):
            return True
        if hash(value) not in seen and isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in _BETWEEN:
            seen.add(hash(value))
            left.extend(value.args)
    return False


def _match_weights(graph: DefUse, expr: relax.Expr) -> tuple[relax.Call, bool]:
    """Return the call of softmax, and whether NaN in its result is replaced by zero."""
    nan_is_zero, uses = False, 1
    while True:
        value = graph.used(expr, uses)
        if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
            raise NotAttentionError("the result of its softmax is also used elsewhere")
        name = operator_name(value)
        if name == "where" and _same_everywhere(graph, value.args[0]) == 0:
            expr, uses = value.args[2], 1
            continue
        if name == "where" and uses == 1 and (kept := _without_nan(graph, value)) is not None:
            expr, nan_is_zero, uses = kept, True, 2
            continue
        if name == "nn.softmax":
            rank = len(static_shape(value) or ())
            if int(value.attrs.axis) not in {-1, rank - 1}:
                raise NotAttentionError(f"its softmax is along axis {value.attrs.axis} of {rank}")
            return value, nan_is_zero
        if not _passes(name, value):
            raise NotAttentionError(f"{name} stands between its softmax and its second product")
        expr, uses = value.args[0], 1


def _without_nan(graph: DefUse, where: relax.Call) -> relax.Expr | None:
    """Return the tensor whose NaN the call replaces by zero, or None if the call does something else."""
    test = graph.find(where.args[0], "isnan")
    if test is None or scalar(where.args[1]) != 0:
        return None
    tested, kept = (_uncast(graph, each) for each in (test.args[0], where.args[2]))
    return kept if tested.same_as(kept) else None


def _uncast(graph: DefUse, expr: relax.Expr) -> relax.Expr:
    while (cast := graph.find(expr, "astype")) is not None:
        expr = cast.args[0]
    return expr


def _passes(name: str, call: relax.Call) -> bool:
    """Return whether the call changes neither the scores nor their order; rows of several heads may become one axis."""
    if name == "astype":
        return str(call.ty.dtype) in _FLOATS and str(call.args[0].ty.dtype) in _FLOATS
    if name not in {"reshape", "expand_dims", "squeeze"}:
        return False
    before, after = static_shape(call.args[0]), static_shape(call)
    return before is not None and after is not None and before[-1:] == after[-1:]


def _match_scores(graph: DefUse, expr: relax.Expr) -> Scores:
    call = graph.used(expr)
    shape = static_shape(expr)
    if not isinstance(call, tvm.ir.Call) or not isinstance(call.op, tvm.ir.Op):
        raise NotAttentionError("its scores are also used elsewhere")
    if shape is None:
        raise NotAttentionError("the shape of its scores is not known")
    name = operator_name(call)
    if name == "matmul":
        return _match_product(call, shape)
    if name == "where":
        return _match_where(graph, call, shape)
    if name in {"add", "multiply", "divide"}:
        return _match_elementwise(graph, call, shape)
    if name == "tanh":
        found = _match_scores(graph, call.args[0])
        if found.masks or found.cap is not None:
            raise NotAttentionError("its softcap comes after a mask")
        return replace(found, cap=1.0)
    if not _passes(name, call):
        raise NotAttentionError(f"{name} stands between its first product and its softmax")
    return _match_scores(graph, call.args[0])


def _match_product(call: relax.Call, shape: tuple[int, ...]) -> Scores:
    ranks = [len(static_shape(argument) or ()) for argument in call.args]
    if min(ranks) < 2 or str(call.ty.dtype) not in _FLOATS:
        raise NotAttentionError(f"its first product is of {call.ty.dtype} in {call.ty.ndim} axes")
    return Scores(call.args[0], call.args[1], shape)


def _match_elementwise(graph: DefUse, call: relax.Call, shape: tuple[int, ...]) -> Scores:
    sides = (call.args, call.args[::-1]) if call.op.name != "relax.divide" else (call.args,)
    why = None
    for scores, other in sides:
        found = _try_scores(graph, scores, shape)
        if isinstance(found, Scores):
            return _take_operand(graph, call, found, other)
        why = why or found
    raise why or NotAttentionError(f"{operator_name(call)} spreads its scores")


def _take_operand(graph: DefUse, call: relax.Call, scores: Scores, other: relax.Expr) -> Scores:
    """Return the scores with a constant factor folded into their scale, or with an added tensor as another mask."""
    name, shape = operator_name(call), static_shape(call) or ()
    if name == "add":
        is_zero = _same_everywhere(graph, other) == 0
        return scores if is_zero else replace(scores, masks=(*scores.masks, MaskOf(other, shape)))
    number = scalar(other)
    if not number:
        raise NotAttentionError(f"{name} of its scores has an operand that is not one constant number")
    return scores.times(number if name == "multiply" else 1 / number)


def _match_where(graph: DefUse, call: relax.Call, shape: tuple[int, ...]) -> Scores:
    why = None
    for keeps, scores, other in ((True, *call.args[1:]), (False, *call.args[:0:-1])):
        fill = _same_everywhere(graph, other)
        found = None if fill is None else _try_scores(graph, scores, shape)
        if isinstance(found, Scores) and fill is not None:
            return replace(found, masks=(*found.masks, MaskOf(call.args[0], shape, fill, keeps)))
        why = why or (None if isinstance(found, Scores) else found)
    raise why or NotAttentionError("a mask replaces its scores by something other than one constant number")


def _try_scores(graph: DefUse, expr: relax.Expr, shape: tuple[int, ...]) -> Scores | NotAttentionError | None:
    """Return the scores, or the error that says why they do not match.

    Return None for an expression of another shape, and for an expression without a product before it.
    """
    if static_shape(expr) != shape or not _comes_from(graph, expr, "relax.matmul"):
        return None
    try:
        return _match_scores(graph, expr)
    except NotAttentionError as why:
        return why


def _same_everywhere(graph: DefUse, expr: relax.Expr) -> float | None:
    """Return the number that all elements of a constant tensor have, or None for other tensors."""
    value = resolve(graph.lookup, expr)
    while is_call(value, "relax.broadcast_to"):
        value = resolve(graph.lookup, value.args[0])
    if is_call(value, "relax.full"):
        return scalar(value.args[1])
    if not isinstance(value, tvm.ir.GenericConst):
        return None
    numbers = value.value.numpy()
    return float(numbers.flat[0]) if numbers.size and bool(np.all(numbers == numbers.flat[0])) else None
