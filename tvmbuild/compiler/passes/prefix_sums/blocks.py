"""Prefix sums on GPUs in blocks: sums within each block, sums of the blocks before it, and both added.

TVM's own kernel assumes that the 32 threads of a warp run in step, and has no barrier to ensure it. On GPUs whose
subgroups have 8 threads (lavapipe, some Intel GPUs), that kernel's sums of more than 32 elements are wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import relax, te, tirx

from tvmbuild.compiler.ir.expressions import static_shape

BLOCK = 64
"""The number of elements in a block. Each element is read up to this many times, on average half as many."""


def sum_in_blocks(builder: relax.BlockBuilder, data: relax.Expr, axis: int, *, exclusive: bool) -> relax.Expr:
    """Return the prefix sums of the data along an axis."""
    length = (static_shape(data) or ())[axis]
    first = 1 if exclusive else 0

    def in_block(index: Any, k: Any) -> tuple[Any, Any]:
        return index // BLOCK * BLOCK + k, k + first <= index % BLOCK

    within = builder.emit_te(partial(_sum, axis, length, in_block), data, primfunc_name_hint="prefix_sum")
    if length <= BLOCK:
        return within
    blocks = -(-length // BLOCK)

    def of_block(index: Any, k: Any) -> tuple[Any, Any]:
        return index * BLOCK + k, index * BLOCK + k < length

    totals = builder.emit_te(partial(_sum, axis, blocks, of_block), data, primfunc_name_hint="block_sum")
    before = sum_in_blocks(builder, totals, axis, exclusive=True)
    return builder.emit_te(_add_of_block, within, before, axis, primfunc_name_hint="add_block_sum")


def _sum(axis: int, length: int, select: Callable[[Any, Any], tuple[Any, Any]], data: te.Tensor) -> te.Tensor:
    """Compute ``length`` sums along the axis, each of up to `BLOCK` elements that ``select`` chooses.

    ``select(index, k)`` returns the place of element k in the sum at ``index``, and whether the element counts.
    """
    k = te.reduce_axis((0, BLOCK), name="k")

    def element(*at: Any) -> Any:
        place, wanted = select(at[axis], k)
        source = (*at[:axis], place, *at[axis + 1 :])
        value = data[source]
        return te.sum(tirx.if_then_else(wanted, value, tirx.const(0, data.dtype)), axis=k)

    shape = [length if each == axis else size for each, size in enumerate(data.shape)]
    return te.compute(shape, element, name="prefix_sum")


def _add_of_block(within: te.Tensor, before: te.Tensor, axis: int) -> te.Tensor:
    def element(*at: Any) -> Any:
        block = (*at[:axis], at[axis] // BLOCK, *at[axis + 1 :])
        return within[at] + before[block]

    return te.compute(within.shape, element, name="add_block_sum")
