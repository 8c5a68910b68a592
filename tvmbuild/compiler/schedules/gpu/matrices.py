"""A function of a GPU as a product of matrices: which axes are rows, columns and depth, and how operands lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.schedules.access import Access
from tvmbuild.compiler.schedules.gpu.staged_tiles import Matrices
from tvmbuild.compiler.schedules.gpu.sums import inline_around_sum
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
    contiguous: tuple[bool, bool]
    """Whether the first is so along the depth, the second along the columns."""
    order: tuple[int, ...]
    """The sum's axes as (outer …, row, column, depth)."""


def view_matrices(function: tirx.PrimFunc) -> MatrixProduct | None:
    """Return the function as a product of matrices; None where it is something else."""
    sch = s_tir.Schedule(function, error_render_level="none")
    blocks = inline_around_sum(sch)
    if blocks is None:
        return None
    block, last = blocks
    nest = view_nest(sch, block)
    if nest is None or nest.store is None or len(nest.loads) != 2 or len(nest.reduced) != 1:
        return None
    if not _adds_products(sch.get(block).body):
        return None
    if last is not None and not _writes_alike(sch, nest, last):
        return None
    return _find_axes(sch, block, last, nest)


def _adds_products(body: Any) -> bool:
    """Say whether a sum's terms are products of two numbers: zeros, which fill tiles up, then add nothing."""
    value = body.value
    if not isinstance(value, tirx.Add):
        return False
    sums = [
        each for each in (value.a, value.b) if isinstance(each, tvm.ir.TensorLoad) and each.source.same_as(body.buffer)
    ]
    terms = [each for each in (value.a, value.b) if isinstance(each, tirx.Mul)]
    return len(sums) == len(terms) == 1 and all(_is_number(each) for each in (terms[0].a, terms[0].b))


def _is_number(value: Any) -> bool:
    return isinstance(value, tvm.ir.TensorLoad) or (isinstance(value, tirx.Cast) and _is_number(value.value))


def _writes_alike(sch: s_tir.Schedule, nest: Nest, last: Any) -> bool:
    """Say whether the last block goes through the outputs as the sum does."""
    ending = view_nest(sch, last)
    if ending is None or nest.store is None:
        return False
    reads = [each for each in ending.loads if each.buffer.same_as(nest.store.buffer)]
    loops, spatial = [axis.var for axis in ending.axes], [axis.var for axis in nest.spatial]
    stored = _order(nest.store, spatial)
    same = [axis.extent for axis in ending.axes] == [axis.extent for axis in nest.spatial]
    return bool(reads) and same and stored is not None and all(_order(each, loops) == stored for each in reads)


def _order(access: Access, variables: list[Any]) -> list[int] | None:
    """Return which variable each index is, constants left out; None where one is anything else."""
    found: list[int] = []
    for index in access.indices:
        if isinstance(index, tirx.IntImm):
            continue
        at = next((at for at, each in enumerate(variables) if each.same_as(index)), None)
        if at is None:
            return None
        found.append(at)
    return found


def _find_axes(sch: s_tir.Schedule, block: Any, last: Any, nest: Nest) -> MatrixProduct | None:
    depth = next(index for index, axis in enumerate(nest.axes) if axis.reduces)
    spatial = [index for index in range(len(nest.axes)) if index != depth]
    variables = [axis.var for axis in nest.axes]
    if len(spatial) < 2 or any(_order(load, variables) is None for load in nest.loads):
        return None
    moves = {index: tuple(load.stride(axis.var) != 0 for load in nest.loads) for index, axis in enumerate(nest.axes)}
    column = spatial[-1]
    if not all(moves[depth]) or sum(moves[column]) != 1:
        return None
    second = moves[column].index(True)
    rows = [index for index in spatial if moves[index][1 - second] and not moves[index][second]]
    if not rows:
        return None
    row = rows[-1]
    outer = [index for index in spatial if index not in (row, column)]
    if [*outer, row, column] != spatial or nest.store is None or _order(nest.store, variables) != spatial:
        return None
    first, other = nest.loads[1 - second], nest.loads[second]
    extents = [axis.extent for axis in nest.axes]
    sizes = Matrices(
        math.prod(extents[index] for index in outer),
        extents[row],
        extents[column],
        extents[depth],
        max(first.bits, other.bits) // 8,
    )
    contiguous = (first.stride(variables[depth]) == 1, other.stride(variables[column]) == 1)
    order = (*outer, row, column, depth)
    reads = [region.source for region in sch.get(block).reads]
    operands = tuple(next(at for at, each in enumerate(reads) if each.same_as(load.buffer)) for load in (first, other))
    if operands[0] == operands[1]:
        return None  # a matrix times itself
    return MatrixProduct(sch, block, last, sizes, (operands[0], operands[1]), contiguous, order)
