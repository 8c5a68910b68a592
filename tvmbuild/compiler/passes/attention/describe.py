"""From a pattern of the graph to the form that functions are written from: where each operand's numbers lie."""

from __future__ import annotations

from dataclasses import replace

from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.kernels.attention.form import Attention, Buffer, Found, Mask, Operand, fold_groups, make_operand
from tvmbuild.compiler.kernels.attention.views import Axis, View, dense, refine
from tvmbuild.compiler.passes.attention.masks import Prepared, find_visible, prepare_mask
from tvmbuild.compiler.passes.attention.order import choose_order
from tvmbuild.compiler.passes.attention.pattern import Graph, Pattern
from tvmbuild.compiler.passes.attention.sources import Source, find_source


class Describer:
    """Describes the attentions of one function, whose masks they share."""

    def __init__(self, rewriter: PyExprMutator, graph: Graph) -> None:
        self._rewriter, self._graph = rewriter, graph
        self._masks: dict[object, Prepared] = {}

    def describe(self, pattern: Pattern) -> Found | None:
        """Return the form, with its inputs as they are in the module that is being made; None where it has none."""
        scores, shape = pattern.scores, static_shape(pattern.product)
        if shape is None or 0 in (*shape, *scores.shape):
            return None
        masks = [prepare_mask(self._rewriter, each, self._masks) for each in scores.masks]
        prepared = [each for each in masks if each is not None]
        if len(prepared) < len(masks):
            return None
        # Moved first where no factor divides the other: where keys and values are repeated in two ways, say.
        return self._arrange(pattern, prepared, moves=False) or self._arrange(pattern, prepared, moves=True)

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
        """Return query, key and value as [heads…, tokens, size]."""
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
        """Return the tensor in that shape, its rows and columns of one step each; ``moves``: as the graph says."""
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
    """Return the tensor's place among the inputs, of which it becomes one."""
    for place, each in enumerate(inputs):
        if each.same_as(tensor):
            return place
    inputs.append(tensor)
    return len(inputs) - 1
