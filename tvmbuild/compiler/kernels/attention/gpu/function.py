"""The attention kernel of GPUs: a block of threads runs over all keys for some queries of a head.

The block keeps the running maximum and sum of the softmax.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64, wide
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.attention.form import Attention, begin_function
from tvmbuild.compiler.kernels.attention.gpu.block import Block, Rows, begin_block
from tvmbuild.compiler.kernels.attention.gpu.sizes import THREADS, Sizes, choose_sizes
from tvmbuild.compiler.kernels.attention.gpu.steps import (
    LEAST,
    write_outputs,
    write_scores,
    write_weighted,
    write_weights,
)
from tvmbuild.compiler.kernels.vectors import number, store
from tvmbuild.compiler.machine.limits import staging_limits
from tvmbuild.compiler.remarks import missed
from tvmbuild.compiler.schedules.gpu.tiles import MAX_BLOCKS


def write_attention(form: Attention, target: tvm.target.Target) -> tirx.PrimFunc | None:
    """Write the attention kernel for a GPU, already scheduled, or return None if the target's blocks are too small.

    Return None, too, if there are more heads than blocks in a grid. See :class:`Attention` for the kernel's arguments.
    """
    sizes = choose_sizes(form, staging_limits(target.attrs))
    heads = math.prod(form.heads)
    if sizes is None:
        return missed(f"the target's blocks have too little shared memory for heads of {form.depth} and {form.width}")
    if heads > MAX_BLOCKS:
        return missed(f"the target has fewer blocks than its {heads} heads")
    blocks = -(-form.rows // sizes.rows)
    with (
        begin_function(form) as (builder, inputs, out),
        T.thread_binding(*wide(0, heads), thread="blockIdx.y") as head,
        T.thread_binding(*wide(0, blocks), thread="blockIdx.x") as part,
        T.thread_binding(*wide(0, THREADS), thread="threadIdx.x") as thread,
    ):
        _write_block(begin_block(form, sizes, (inputs, out), (head, part, thread)), part)
    return mark_scheduled(builder.get())


def _write_block(block: Block, part: Any) -> None:
    form, sizes = block.form, block.sizes
    queries = Rows(block, block.query, sizes.rows, form.rows, form.depth, block.queries, sizes.stride)
    keys = Rows(block, block.key, sizes.keys, form.keys, form.depth, block.keys, sizes.stride)
    values = Rows(block, block.value, sizes.keys, form.keys, form.width, block.values, sizes.width)
    begin, end = _find_steps(form, sizes, part)
    next_keys, next_values = keys.registers(), values.registers()
    keys.fetch(next_keys, begin * sizes.keys)
    values.fetch(next_values, begin * sizes.keys)
    kept = queries.registers()
    queries.fetch(kept, block.first)
    queries.put(kept, form.scale)
    store(block.largest, number(LEAST), int64(0))
    store(block.total, number(0), int64(0))
    for place in range(sizes.group * sizes.columns):
        store(block.sums, number(0), int64(place))
    with T.serial(end - begin) as step:
        first = T.Bind((begin + step) * sizes.keys)
        keys.put(next_keys)
        values.put(next_values)
        keys.fetch(next_keys, first + sizes.keys)  # loads the next keys during the computation
        values.fetch(next_values, first + sizes.keys)
        write_scores(block, first)
        write_weights(block, first)
        write_weighted(block)
    write_outputs(block)


def _find_steps(form: Attention, sizes: Sizes, part: Any) -> tuple[Any, Any]:
    """Return the range (begin, end) of the blocks of keys that a block of rows sees.

    Two lines along the rows bound the visible keys. The bounds are exact for causal masks and sliding windows, and wide
    enough for any other mask.
    """
    steps = -(-form.keys // sizes.keys)
    if not form.visible:
        return wide(0, steps)
    starts = range(0, form.rows, sizes.rows)
    seen = [form.visible[start : start + sizes.rows] for start in starts]
    ahead = max(max(end for _, end in each) - start for start, each in zip(starts, seen, strict=True))
    behind = max(start - min(begin for begin, _ in each) for start, each in zip(starts, seen, strict=True))
    low = tirx.Max(part * sizes.rows - behind, int64(0)) // sizes.keys
    high = tirx.Min((part * sizes.rows + ahead + sizes.keys - 1) // sizes.keys, int64(steps))
    return T.Bind(low), T.Bind(high)
