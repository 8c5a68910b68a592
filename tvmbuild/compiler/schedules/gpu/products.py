"""A schedule rule for convolutions and matrix products on GPUs, in which several threads share a sum (split-K).

At batch 1 a layer has few outputs and a long sum. A schedule with one thread for each output, as MetaSchedule's rules
generate it, leaves most of a GPU idle. In this rule several threads add up parts of the same sum, in registers, and
combine the parts through shared memory. Operands come directly from the caches: they are not copied to shared memory.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.machine.limits import limits_of
from tvmbuild.compiler.schedules.attempt import try_rule
from tvmbuild.compiler.schedules.gpu.sums import Group, Isolated, isolate_sum
from tvmbuild.compiler.schedules.gpu.tiles import UNROLLED, WARP, Product, Tile, list_tiles
from tvmbuild.compiler.schedules.nest import Nest


def list_products(function: tirx.PrimFunc, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules, the most promising first; an empty list if the function is not a product."""
    limits = limits_of(target.attrs)
    sums = view_product(function)
    if sums is None:
        return []
    schedules = (try_rule(split_sum, sums, tile) for tile in list_tiles(measure(sums), limits, limit))
    return [schedule for schedule in schedules if schedule is not None]


def view_product(function: tirx.PrimFunc) -> Isolated | None:
    """Return the function as a product over (row, column, depth), or None if it cannot be seen as one."""
    return isolate_sum(function, _rows_and_columns)


def measure(sums: Isolated) -> Product:
    """Return the sizes of a product."""
    rows, columns, depth = sums.extents
    return Product(rows, columns, depth, sums.sum_bytes)


def split_sum(sums: Isolated, tile: Tile, bind: bool = True) -> s_tir.Schedule:
    """Return the schedule of a product with the tile; if ``bind`` is False, its threads are loops, for a CPU.

    A thread's part of a sum is a contiguous piece. But if the threads of a warp have different parts and one operand is
    contiguous along the sum, a part is every n-th step, so that simultaneous reads are contiguous.
    """
    sch, total, last = sums.sch.copy(), sums.block, sums.last
    # Neighbouring threads have neighbouring columns, so a thread's own columns are apart: (strip, lane) replaces
    # column.
    lanes = tile.column_threads
    sch.transform_block_layout(total, lambda row, column, k: (row, column // lanes, column % lanes, k))
    sch.transform_block_layout(last, lambda row, column: (row, column // lanes, column % lanes))
    sch.transform_layout(total, ("write", 0), lambda row, column: (row, column // lanes, column % lanes))
    depth = sch.get_loops(total)[3]
    if lanes < WARP and sums.run % tile.parts == 0:
        _, part = sch.split(depth, [None, tile.parts])
    else:
        part, _ = sch.split(depth, [tile.parts, None])
    parts = sch.rfactor(part, 0)
    row, strip, lane = sch.get_loops(last)
    block_row, row = sch.split(row, [None, tile.height])
    block_column, strip = sch.split(strip, [None, tile.columns])
    sch.reorder(block_row, block_column, row, strip, lane)
    adder = sch.fuse(row, strip, lane)
    sch.compute_at(total, adder, preserve_unit_loops=True)
    sch.set_scope(total, 0, "local")
    sch.compute_at(parts, block_column, preserve_unit_loops=True)
    sch.set_scope(parts, 0, "shared")
    thread, step = _place_parts(sch, parts, tile)
    sch.unroll(sch.get_loops(total)[-1])
    _, adder = sch.split(adder, [None, tile.threads])
    if bind:
        axes = {block_row: "blockIdx.y", block_column: "blockIdx.x", thread: "threadIdx.x", adder: "threadIdx.x"}
        for loop, axis in axes.items():
            sch.bind(loop, axis)
    sch.decompose_reduction(parts, step)
    return sch


def _place_parts(sch: s_tir.Schedule, block: Any, tile: Tile) -> tuple[Any, Any]:
    """Give each thread its elements, which stay in registers until its part is added up.

    Return the loop of threads and the loop of steps along the sum.
    """
    store = sch.cache_write(block, 0, "local")
    part, row, strip, lane, depth = sch.get_loops(block)[2:]
    row_thread, row = sch.split(row, [tile.row_threads, tile.rows])
    steps = int(sch.get(depth).extent)
    step, inner = sch.split(depth, [None, next(size for size in range(UNROLLED, 0, -1) if steps % size == 0)])
    sch.reorder(part, row_thread, lane, step, inner, row, strip)
    thread = sch.fuse(part, row_thread, lane)
    sch.reverse_compute_at(store, thread, preserve_unit_loops=True)
    for loop in (inner, row, strip, *sch.get_loops(store)[3:]):
        sch.unroll(loop)
    return thread, step


def _rows_and_columns(nest: Nest) -> tuple[Group, ...] | None:
    """Return the output axes that move one operand, and those that move the other, or None if it is not a product.

    The last axis of the output is in the second group.
    """
    if len(nest.loads) != 2 or not nest.spatial:
        return None
    moves = [tuple(load.stride(axis.var) != 0 for load in nest.loads) for axis in nest.axes]
    spatial = [index for index, axis in enumerate(nest.axes) if not axis.reduces]
    if any(sum(moves[index]) != 1 for index in spatial):  # depthwise, or not a product
        return None
    columns = tuple(index for index in spatial if moves[index] == moves[spatial[-1]])
    return tuple(index for index in spatial if index not in columns), columns
