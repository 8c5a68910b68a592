"""The view of a GPU function as a matrix product: its axes of rows, columns and depth, and its operands' layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.codegen.byte_products import DOT
from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.schedules.attempt import ScheduleRefused, try_rule
from tvmbuild.compiler.schedules.gpu.matrix_axes import MatrixAxes, find_axes, find_dimensions, order_of
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices
from tvmbuild.compiler.schedules.gpu.sums import change_layout, inline_around_sum, join_axes, join_groups
from tvmbuild.compiler.schedules.gpu.unfold import find_read, measure_run, unfold_windows
from tvmbuild.compiler.schedules.nest import Nest, require_nest, view_nest


@dataclass(frozen=True)
class MatrixProduct:
    """A function with a sum over (outer …, row, column, depth), and the block that writes the output."""

    sch: s_tir.Schedule
    block: Any
    last: Any
    """The block that writes the output, or None if the sum itself writes it."""
    sizes: Matrices
    operands: tuple[int, int]
    """The indices of two reads of the sum: the operand that moves with the rows, and that of the columns."""
    turned: bool
    """True if the sum's terms are the second operand times the first."""
    runs: tuple[int, int]
    """The numbers of contiguous elements: of the first operand along the depth, of the second along the columns."""
    outer: int
    """The number of the sum's axes before (row, column, depth)."""
    is_unfolded: bool = False
    """True if one operand is a matrix of unfolded windows (im2col)."""

    @property
    def operand_type(self) -> str:
        """Return the dtype of both operands, or an empty string if they differ."""
        types = {str(self.sch.get(self.block).reads[which].source.dtype) for which in self.operands}
        return types.pop() if len(types) == 1 else ""

    @property
    def sums_type(self) -> str:
        """Return the dtype in which the products are added up."""
        return str(self.sch.get(self.block).writes[0].source.dtype)


def view_matrices(function: tirx.PrimFunc) -> MatrixProduct | None:
    """Return the function as a matrix product, or None if it cannot be seen as one.

    Convolutions are matrix products, whatever their layout. For 1 x 1 windows, neighbouring axes that move only one
    operand become one axis, for example the pixels of a picture. For larger windows, the elements that a window reads
    are a row of a matrix.
    """
    return try_rule(_view, function) or try_rule(_view_unfolded, function)


def _view(function: tirx.PrimFunc) -> MatrixProduct:
    sch = s_tir.Schedule(function, error_render_level="none")
    blocks = inline_around_sum(sch)
    if blocks is None:
        raise ScheduleRefused("it is not one reduction and what surrounds it")
    return _describe(sch, *blocks, None)


def _view_unfolded(function: tirx.PrimFunc) -> MatrixProduct:
    unfolded = unfold_windows(function)
    if unfolded is None:
        raise ScheduleRefused("it has no windows that can be unfolded (im2col)")
    return _describe(*unfolded)


def _describe(sch: s_tir.Schedule, block: Any, last: Any | None, unfolded: Any | None) -> MatrixProduct:
    nest = require_nest(sch, block)
    if nest.store is None or len(nest.loads) != 2 or not _adds_products(sch.get(block).body):
        raise ScheduleRefused("it does not add up products of two operands")
    axes = find_axes(nest)
    if axes is None:
        raise ScheduleRefused("its axes are not rows, columns and depth of a product of matrices")
    if last is not None and not _writes_alike(sch, nest, last):
        raise ScheduleRefused("what follows the sum goes through the outputs in another order")
    operands = find_read(sch.get(block), nest.loads[axes.first]), find_read(sch.get(block), nest.loads[1 - axes.first])
    if operands[0] == operands[1]:
        raise ScheduleRefused("it is a matrix times itself")
    runs = axes.measure_runs(nest)
    product = MatrixProduct(sch, block, last, axes.measure(nest), operands, axes.first == 1, runs, len(axes.outer))
    dense = all(len(each.shape) <= len(axes.outer) + 2 for each in (nest.store, *nest.loads))  # no dimensions of one
    if unfolded is None and dense and all(len(group) == 1 for group in axes.all):
        return product
    return _join_axes(product, nest, axes, unfolded)


def _adds_products(body: Any) -> bool:
    """Return whether the block adds up products of two numbers or of their bytes: zeros as padding then add nothing."""
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
    """Return whether the last block goes through the outputs in the same order as the sum."""
    ending = view_nest(sch, last)
    if ending is None or nest.store is None:
        return False
    reads = [each for each in ending.loads if each.buffer.same_as(nest.store.buffer)]
    loops, spatial = [axis.var for axis in ending.axes], [axis.var for axis in nest.spatial]
    stored = order_of(nest.store, spatial)
    same = [axis.extent for axis in ending.axes] == [axis.extent for axis in nest.spatial]
    return bool(reads) and same and stored is not None and all(order_of(each, loops) == stored for each in reads)


def _join_axes(product: MatrixProduct, nest: Nest, axes: MatrixAxes, unfolded: Any | None) -> MatrixProduct:
    """Join each group of axes to one axis, and to one dimension in copies of the operands."""
    sch, block = product.sch, product.block
    last = sch.cache_write(block, 0, "local") if product.last is None else product.last
    runs, gathered = list(product.runs), [False, False]
    for which, load in enumerate((nest.loads[axes.first], nest.loads[1 - axes.first])):
        operand = product.operands[which]
        is_unfolded = unfolded is not None and sch.get(unfolded).writes[0].source.same_as(load.buffer)
        dimensions = axes.order_unfolded(load, nest, which) if is_unfolded else find_dimensions(load, nest, axes)
        if dimensions is None:
            raise ScheduleRefused("the dimensions of an operand are not groups of its axes")
        if is_unfolded:
            runs[which] = measure_run(sch, unfolded, dimensions[-1][-1])
            gathered[which] = runs[which] == 1
        copy = unfolded if is_unfolded else sch.cache_read(block, operand, "shared")
        join = join_axes(load.shape, dimensions)
        change_layout(sch, block, ("read", operand), join)
        sch.transform_block_layout(copy, join)
    ending = view_nest(sch, last)
    if ending is None or not join_groups(sch, nest, ending, axes.all):
        raise ScheduleRefused("what follows the sum takes a part of it, or goes through it in another order")
    sizes = replace(product.sizes, gathered=(gathered[0], gathered[1]))
    return replace(product, last=last, sizes=sizes, runs=(runs[0], runs[1]), is_unfolded=unfolded is not None)
