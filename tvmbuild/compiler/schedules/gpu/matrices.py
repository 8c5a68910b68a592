"""A function of a GPU as a product of matrices: which axes are rows, columns and depth, and how operands lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.calls import is_call
from tvmbuild.compiler.codegen.byte_products import DOT
from tvmbuild.compiler.schedules.attempt import try_rule
from tvmbuild.compiler.schedules.gpu.matrix_axes import MatrixAxes, find_axes, find_dimensions, order_of
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices
from tvmbuild.compiler.schedules.gpu.sums import inline_around_sum, join_axes, join_groups
from tvmbuild.compiler.schedules.nest import Nest, view_nest


@dataclass(frozen=True)
class MatrixProduct:
    """A function of a sum over (outer …, row, column, depth), and the block that writes the output."""

    sch: s_tir.Schedule
    block: Any
    last: Any
    """None: the sum itself writes the output."""
    sizes: Matrices
    operands: tuple[int, int]
    """Of the sum's reads, the one that moves with the rows and the one that moves with the columns."""
    turned: bool
    """Whether the sum's terms are the second operand times the first."""
    contiguous: tuple[bool, bool]
    """Whether the first is so along the depth, the second along the columns."""
    outer: int
    """How many axes of the sum go before (row, column, depth)."""


def view_matrices(function: tirx.PrimFunc) -> MatrixProduct | None:
    """Return the function as a product of matrices; None where it is something else.

    Convolutions of 1 x 1 are such products, whatever their layout: neighbouring axes that one operand alone moves with
    become one, as the pixels of a picture do.
    """
    return try_rule(partial(_view, function))


def _view(function: tirx.PrimFunc) -> MatrixProduct | None:
    sch = s_tir.Schedule(function, error_render_level="none")
    blocks = inline_around_sum(sch)
    if blocks is None:
        return None
    block, last = blocks
    nest = view_nest(sch, block)
    if nest is None or nest.store is None or len(nest.loads) != 2 or not _adds_products(sch.get(block).body):
        return None
    axes = find_axes(nest)
    if axes is None or (last is not None and not _writes_alike(sch, nest, last)):
        return None
    operands = _find_operands(sch.get(block), nest, axes)
    if operands is None:
        return None
    product = MatrixProduct(
        sch, block, last, axes.measure(nest), operands, axes.first == 1, axes.contiguous(nest), len(axes.outer)
    )
    dense = all(len(each.shape) <= len(axes.outer) + 2 for each in (nest.store, *nest.loads))  # no dimensions of one
    return product if dense and all(len(group) == 1 for group in axes.all) else _join_axes(product, nest, axes)


def _adds_products(body: Any) -> bool:
    """Say whether a sum's terms are products of two numbers, or of their bytes: zeros, which fill up, add nothing."""
    value = body.value
    if not isinstance(value, tirx.Add):
        return False
    sums = [
        each for each in (value.a, value.b) if isinstance(each, tvm.ir.TensorLoad) and each.source.same_as(body.buffer)
    ]
    factors = [found for each in (value.a, value.b) if (found := _read_factors(each))]
    return len(sums) == len(factors) == 1 and all(_is_number(each) for each in factors[0])


def _read_factors(term: Any) -> tuple[Any, Any] | None:
    if is_call(term, DOT):
        return term.args[0], term.args[1]
    return (term.a, term.b) if isinstance(term, tirx.Mul) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, tvm.ir.TensorLoad) or (isinstance(value, tirx.Cast) and _is_number(value.value))


def _writes_alike(sch: s_tir.Schedule, nest: Nest, last: Any) -> bool:
    """Say whether the last block goes through the outputs as the sum does."""
    ending = view_nest(sch, last)
    if ending is None or nest.store is None:
        return False
    reads = [each for each in ending.loads if each.buffer.same_as(nest.store.buffer)]
    loops, spatial = [axis.var for axis in ending.axes], [axis.var for axis in nest.spatial]
    stored = order_of(nest.store, spatial)
    same = [axis.extent for axis in ending.axes] == [axis.extent for axis in nest.spatial]
    return bool(reads) and same and stored is not None and all(order_of(each, loops) == stored for each in reads)


def _find_operands(block: Any, nest: Nest, axes: MatrixAxes) -> tuple[int, int] | None:
    """Return which of the sum's reads is the first operand and which the second; None for a matrix times itself."""
    reads = [region.source for region in block.reads]
    loads = nest.loads[axes.first], nest.loads[1 - axes.first]
    first, second = (next(at for at, each in enumerate(reads) if each.same_as(load.buffer)) for load in loads)
    return None if first == second else (first, second)


def _join_axes(product: MatrixProduct, nest: Nest, axes: MatrixAxes) -> MatrixProduct | None:
    """Make one axis of each group, and one dimension in copies of the operands."""
    sch, block = product.sch, product.block
    last = sch.cache_write(block, 0, "local") if product.last is None else product.last
    for operand, load in zip(product.operands, (nest.loads[axes.first], nest.loads[1 - axes.first]), strict=True):
        dimensions = find_dimensions(load, nest, axes)
        if dimensions is None:
            return None
        join = join_axes(load.shape, dimensions)
        copy = sch.cache_read(block, operand, "shared")
        sch.transform_layout(block, ("read", operand), join)
        sch.transform_block_layout(copy, join)
    ending = view_nest(sch, last)
    if ending is None or not join_groups(sch, nest, ending, axes.all):
        return None
    return replace(product, last=last)
