"""The conversion of an attention pattern in the graph to the form that kernels are written from, with all strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import DefUse, resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.kernels.attention.form import Attention, Buffer, Found, Mask, Operand, fold_groups, make_operand
from tvmbuild.compiler.kernels.attention.views import Axis, View, dense, refine
from tvmbuild.compiler.passes.attention.pattern import MaskOf, Pattern
from tvmbuild.compiler.passes.attention.sources import Source, find_source
from tvmbuild.compiler.remarks import missed


class Describer:
    """A describer of the attentions of one function; it prepares a mask once for all attentions that use it."""

    def __init__(self, rewriter: PyExprMutator, graph: DefUse) -> None:
        self._rewriter, self._graph = rewriter, graph
        self._masks: dict[object, Prepared] = {}

    def describe(self, pattern: Pattern) -> Found | None:
        """Return the form of the attention and its inputs in the new module, or None if no form describes it."""
        scores, shape = pattern.scores, static_shape(pattern.product)
        if shape is None or 0 in (*shape, *scores.shape):
            return missed("its shape is not known, or of no elements")
        masks = [prepare_mask(self._rewriter, each, self._masks) for each in scores.masks]
        prepared = [each for each in masks if each is not None]
        if len(prepared) < len(masks):
            return missed("the shape of its mask is not known")
        # Operands are copied into order first where no factor divides the other, for example if keys and values are
        # repeated in two ways.
        found = self._arrange(pattern, prepared, moves=False) or self._arrange(pattern, prepared, moves=True)
        return found or missed("the heads of its operands have no factors in common")

    def _arrange(self, pattern: Pattern, masks: list[Prepared], *, moves: bool) -> Found | None:
        sources = self._find_sources(pattern, moves=moves)
        if sources is None:
            return None
        scores, (query, key, value) = pattern.scores, sources
        every = (*sources, *(each.source for each in masks))
        heads = refine([sum(each.view.axes[:-2], ()) for each in every])
        if heads is None:
            return None
        inputs: list[relax.Expr] = []
        operands = [_operand(axis, each, inputs) for axis, each in zip(heads, every, strict=True)]
        known = [each for each in operands if each is not None]
        if len(known) < len(operands):
            return None
        extents = tuple(factor.extent for factor in heads[0])
        rows, width = query.view.shape[-2], value.view.shape[-1]
        form = Attention(
            inputs=tuple(Buffer(static_shape(each) or (), str(each.ty.dtype)) for each in inputs),
            heads=extents,
            rows=rows,
            keys=key.view.shape[-2],
            depth=query.view.shape[-1],
            width=width,
            query=known[0],
            key=known[1],
            value=known[2],
            masks=tuple(Mask(operand, each.fill) for each, operand in zip(masks, known[3:], strict=True)),
            scale=scores.scale * query.factor * key.factor,
            nan_is_zero=pattern.nan_is_zero,
            rows_after=choose_order(self._graph, pattern.product, extents, (rows, width)),
            dtype=str(pattern.product.ty.dtype),
            cap=scores.cap,
            visible=find_visible(scores.masks, scores.shape),
        )
        return Found(fold_groups(form), tuple(inputs))

    def _find_sources(self, pattern: Pattern, *, moves: bool) -> tuple[Source, Source, Source] | None:
        """Return query, key and value as views [heads…, tokens, size], or None if the shape of one is not known.

        ``moves`` is that of `_find_source`.
        """
        scores, shape = pattern.scores, static_shape(pattern.product) or ()
        (*leading, rows, keys), (*outer, _, width) = scores.shape, shape
        depth = (static_shape(scores.query) or (0,))[-1]
        query = self._find_source(scores.query, (*leading, rows, depth), scaled=True, moves=moves)
        key = self._find_source(scores.key, (*leading, depth, keys), scaled=True, moves=moves)
        value = self._find_source(pattern.value, (*outer, keys, width), moves=moves)
        if query is None or key is None or value is None:
            return None
        if width > 1 and value.view.axes[-1][0].stride != 1:
            value = self._find_source(pattern.value, (*outer, keys, width), moves=True)
        count = len(leading)
        turned = replace(key, view=key.view.permute([*range(count), count + 1, count]))
        return None if value is None else (query, turned, value)

    def _find_source(
        self, expr: relax.Expr, shape: tuple[int, ...], *, scaled: bool = False, moves: bool = False
    ) -> Source | None:
        """Return the tensor as a view of shape ``shape`` whose rows and columns have one stride each, or None.

        If ``scaled``, the view may be of a tensor that the graph multiplies by a constant. If ``moves``, the view is of
        the expression itself, after the graph's transposes and copies, instead of the tensor behind them.
        """
        expr = self._rewriter.visit_expr(expr)
        own = static_shape(expr)
        source = None if moves else find_source(self._rewriter.lookup_binding, expr, scaled=scaled)
        if source is not None:
            source = replace(source, view=source.view.broadcast(shape))
            if all(len(axis) <= 1 for axis in source.view.axes[-2:]):
                return source
        return None if own is None else Source(expr, dense(own).broadcast(shape))


def _operand(heads: Axis, source: Source, inputs: list[relax.Expr]) -> Operand | None:
    view = View((heads, *source.view.axes[-2:]), source.view.offset)
    return make_operand(view, _place(inputs, source.tensor))


def _place(inputs: list[relax.Expr], tensor: relax.Expr) -> int:
    """Return the index of the tensor in ``inputs``; append the tensor if it is missing."""
    for place, each in enumerate(inputs):
        if each.same_as(tensor):
            return place
    inputs.append(tensor)
    return len(inputs) - 1


# Masks in the form that kernels take: float32, and the keys that a constant mask hides from a row for any scores.

_HIDES = -1e9
"""The largest addend of a mask that hides a key: its weight is then 0 if the row has any other key."""


@dataclass(frozen=True)
class Prepared:
    """A mask as a float32 view in the shape of the scores.

    ``fill`` is the score of hidden keys, or None if the mask is added to the scores.
    """

    source: Source
    fill: float | None


def prepare_mask(rewriter: PyExprMutator, mask: MaskOf, made: dict[object, Prepared]) -> Prepared | None:
    """Return the mask in float32 with neighbouring queries contiguous, or None if its shape is not known.

    Kernels compute several queries of one key in a vector. ``made`` keeps the prepared masks, so that all layers share
    them.
    """
    tensor = rewriter.visit_expr(mask.tensor)
    while is_call(value := resolve(rewriter.lookup_binding, tensor), "relax.broadcast_to"):
        tensor = value.args[0]
    constant_value = value if isinstance(value, tvm.ir.GenericConst) else None
    named = tensor if constant_value is None else constant_value
    shape = static_shape(named)
    if shape is None:
        return None
    name = (hash(named), mask.fill is None, mask.keeps, mask.factor)
    if name not in made:
        tensor = _lay_out(named, mask, shape)
        emitted = tensor if isinstance(tensor, tvm.ir.GenericConst) else rewriter.builder_.emit(tensor)
        made[name] = Prepared(Source(emitted, dense(static_shape(emitted) or ())), None)
    view = made[name].source.view
    if _has_rows(shape):
        view = view.permute([*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
    return Prepared(replace(made[name].source, view=view.broadcast(mask.shape)), mask.fill)


def _has_rows(shape: Sequence[int]) -> bool:
    return len(shape) > 1 and shape[-2] > 1


def _lay_out(tensor: relax.Expr, mask: MaskOf, shape: tuple[int, ...]) -> relax.Expr:
    axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2] if _has_rows(shape) else None
    if isinstance(tensor, tvm.ir.GenericConst):
        values = tensor.value.numpy()
        values = (values if mask.fill is None or mask.keeps else np.logical_not(values)).astype("float32")
        values = values if mask.factor == 1 else values * np.float32(mask.factor)
        return constant(np.ascontiguousarray(values if axes is None else values.transpose(axes)))
    numbers = tensor if str(tensor.ty.dtype) == "float32" else relax.op.astype(tensor, "float32")
    if mask.fill is not None and not mask.keeps:
        numbers = relax.op.subtract(relax.const(1.0, "float32"), numbers)
    if mask.factor != 1:
        numbers = relax.op.multiply(numbers, relax.const(mask.factor, "float32"))
    return numbers if axes is None else relax.op.permute_dims(numbers, axes)


def find_visible(masks: Sequence[MaskOf], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return, for each row, the range (begin, end) of the keys that a single constant mask shows to some head.

    Return an empty tuple if there is another number of masks, or if the mask is computed, or hides nothing or all keys
    of a row.
    """
    hidden = _hides(masks[0]) if len(masks) == 1 else None
    if hidden is None or not hidden.any():
        return ()
    seen = ~np.broadcast_to(hidden, (*hidden.shape[:-2], *shape[-2:])).reshape(-1, *shape[-2:])
    if not seen.any(axis=-1).all():
        return ()
    rows = np.asarray(seen.any(axis=0))
    first, last = rows.argmax(axis=1), rows.shape[1] - rows[:, ::-1].argmax(axis=1)
    return tuple((int(begin), int(end)) for begin, end in zip(first, last, strict=True))


def _hides(mask: MaskOf) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return a Boolean array that is True where a constant mask hides a key, or None for a computed mask."""
    if not isinstance(mask.tensor, tvm.ir.GenericConst):
        return None
    values: np.ndarray[Any, Any] = mask.tensor.value.numpy()
    if mask.fill is None:
        return np.asarray(values.astype(np.float32) * np.float32(mask.factor) <= _HIDES)
    hidden = np.logical_not(values) if mask.keeps else values.astype(bool)
    return hidden if mask.fill <= _HIDES else np.zeros_like(hidden)


# The order of an attention's output in memory for which the transposes after it move nothing.


def choose_order(graph: DefUse, product: relax.Call, heads: tuple[int, ...], sizes: tuple[int, int]) -> int:
    """Return the number of head axes before the rows in the stored output.

    It is chosen so that the transposes after the attention move nothing, if possible. ``sizes`` are the rows and the
    width of a head.
    """
    chain = _follow(graph, product)
    for after in range(len(heads) + 1 if chain else 0):
        view: View | None = as_written(heads, sizes, after).reshape(static_shape(product) or ())
        for call in chain:
            view = None if view is None else _apply(view, call)
        if view is not None and view.is_dense():
            return after
    return len(heads)


def rows_last(count: int, after: int) -> list[int]:
    """Return the axes of the transpose from the stored output to the order heads, rows, width.

    The output is stored with its rows after ``after`` of its ``count`` head axes.
    """
    return [*range(after), *range(after + 1, count + 1), after, count + 1]


def as_written(heads: tuple[int, ...], sizes: tuple[int, int], after: int) -> View:
    """Return the view [heads…, rows, width] of an output that is stored with its rows after ``after`` head axes."""
    shape = (*heads[:after], sizes[0], *heads[after:], sizes[1])
    return dense(shape).permute(rows_last(len(heads), after))


def _follow(graph: DefUse, product: relax.Call) -> list[relax.Call]:
    """Return the reshapes and transposes, up to the last transpose, that are the only users of the product's result."""
    variable = next((each for each, value in graph.values.items() if hash(value) == hash(product)), None)
    chain: list[relax.Call] = []
    while variable is not None and len(users := graph.users.get(variable, [])) == 1:
        variable = users[0]
        value = graph.values[variable]
        if is_call(value, "relax.permute_dims") or is_call(value, "relax.reshape"):
            chain.append(value)
        elif not isinstance(value, relax.Var):
            break
    while chain and not is_call(chain[-1], "relax.permute_dims"):
        chain.pop()
    return chain


def _apply(view: View, call: relax.Call) -> View | None:
    if is_call(call, "relax.permute_dims"):
        return view.permute([int(axis) for axis in call.attrs.axes or range(len(view.axes))[::-1]])
    return view.reshape(static_shape(call) or ())
