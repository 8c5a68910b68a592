"""A schedule rule for matrix products on GPUs: a block of threads keeps its operands in shared memory.

Rows, columns and depths may be any numbers: zeros in shared memory fill up the tiles, and outputs beyond the end are
not written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.machine.limits import staging_limits
from tvmbuild.compiler.schedules.attempt import try_rule
from tvmbuild.compiler.schedules.gpu.matrices import MatrixProduct
from tvmbuild.compiler.schedules.gpu.staged_tiles import (
    ALIGNED,
    MIN_OUTPUTS,
    MIN_ROWS,
    VECTOR,
    StagedTile,
    list_staged_tiles,
)
from tvmbuild.compiler.schedules.gpu.tiled_product import TiledProduct


def list_staged(product: MatrixProduct | None, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules, the most promising first; an empty list without a suitable matrix product."""
    if product is None or product.sizes.rows < MIN_ROWS:
        return []
    if product.is_unfolded and product.sizes.outputs < MIN_OUTPUTS:
        return []
    sizes = product.sizes
    if target.kind.name == "vulkan" and sizes.operand_bytes == 1:
        sizes = replace(sizes, operand_bytes=4)  # our Vulkan code keeps each byte in 32 bits
    tiles = list_staged_tiles(sizes, staging_limits(target.attrs), limit)
    schedules = (try_rule(stage, product, tile) for tile in tiles)
    return [schedule for schedule in schedules if schedule is not None]


def stage(product: MatrixProduct, tile: StagedTile, bind: bool = True) -> s_tir.Schedule:
    """Return the schedule of a product with the tile; if ``bind`` is False, threads are loops, which a CPU can run."""
    return _Staging(product, tile, bind).schedule()


class _Staging(TiledProduct):
    """The construction of one schedule with operands in shared memory."""

    def __init__(self, product: MatrixProduct, tile: StagedTile, bind: bool) -> None:
        super().__init__(product, tile, bind)
        self.tile = tile

    def schedule(self) -> s_tir.Schedule:
        sch, tile = self.sch, self.tile
        block, last = self.fill_up("local")
        stages = [self.stage_operand(block, which) for which in range(2)]
        self.turn_about(block)
        *_, depth = sch.get_loops(block)
        _, part, _ = sch.split(depth, [None, tile.parts, tile.chunk])
        parts = sch.rfactor(part, 0)
        block_column, adder = self.place_blocks(last)
        sch.compute_at(block, adder, preserve_unit_loops=True)
        sch.set_scope(block, 0, "local")
        sch.compute_at(parts, block_column, preserve_unit_loops=True)
        sch.set_scope(parts, 0, "shared")
        step = self.place_parts(parts, stages)
        sch.unroll(sch.get_loops(block)[-1])
        adder = sch.split(adder, [None, tile.threads])[1]
        self.bind(adder, "threadIdx.x")
        sch.decompose_reduction(parts, step)
        return sch

    def turn_about(self, block: Any) -> None:
        """Make rows adjacent that threads sum up at the same time, so that they are in different memory banks."""
        sch, threads = self.sch, self.tile.row_threads
        sch.transform_block_layout(block, self.turn(block, threads, 2))
        sch.transform_layout(block, ("write", 0), self.turn(block, threads, 1))

    def turn(self, block: Any, threads: int, after: int) -> tirx.IndexMap:
        """Return an index map that splits the row into (strip, thread); ``after`` dimensions follow the row."""

        def move(*indices: Any) -> list[Any]:
            at = len(indices) - 1 - after
            return [*indices[:at], indices[at] // threads, indices[at] % threads, *indices[at + 1 :]]

        block = self.sch.get(block)
        variables = block.iter_vars
        dimensions = len(variables) if after == 2 else len(block.writes[0].source.shape)
        return tirx.IndexMap.from_func(move, ndim=dimensions, index_dtype=str(variables[0].var.ty.dtype))

    def stage_operand(self, block: Any, which: int) -> Any:
        """Return the block that copies an operand to shared memory, where padding puts rows into different banks."""
        sch, copy = self.sch, self.copy_operand(block, which)
        if which == 0 and self.product.runs[0] > 1:
            sch.storage_align(copy, 0, len(sch.get(copy).writes[0].source.shape) - 2, self.tile.step, ALIGNED)
        return copy

    def place_parts(self, block: Any, stages: list[Any]) -> Any:
        """Give each thread its elements, which stay in registers until its part of the sum is added up.

        Return the loop of steps along the sum.
        """
        sch, tile = self.sch, self.tile
        store = sch.cache_write(block, 0, "local")
        row, row_thread, column, step, inner = sch.get_loops(block)[-5:]
        part, *ones = sch.get_loops(block)[3 if self.product.outer else 2 : -5]
        sch.reorder(*ones, part)
        column_thread, column = sch.split(column, [tile.column_threads, VECTOR])
        inner, few = sch.split(inner, [None, VECTOR])
        sch.reorder(part, row_thread, column_thread, step, inner, row, few, column)
        thread = sch.fuse(part, row_thread, column_thread)
        self.bind(thread, "threadIdx.x")
        sch.reverse_compute_at(store, thread, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(store)[-1])
        for each, run in zip(stages, self.product.runs, strict=True):
            self.fetch(each, step, run > 1)
        at = (row, inner)
        for which, (operand, run) in enumerate(zip(self.product.operands, self.product.runs, strict=True)):
            kept = sch.cache_read(block, operand, "local")
            sch.compute_at(kept, at[which], preserve_unit_loops=True)
            *others, loop = self.own_loops(kept)
            for each in others:
                sch.unroll(each)
            if run > 1:
                sch.vectorize(loop)
        for loop in (inner, row, few, column):
            sch.unroll(loop)
        return step

    def fetch(self, block: Any, step: Any, contiguous: bool) -> None:
        """Let all threads copy an operand to shared memory in each step."""
        sch, tile = self.sch, self.tile
        sch.compute_at(block, step, preserve_unit_loops=True)
        fused = sch.fuse(*self.own_loops(block))
        vector = VECTOR if contiguous else 1
        rest, thread, few = sch.split(fused, [None, tile.threads, vector])
        self.bind(thread, "threadIdx.x")
        sch.vectorize(few)
        sch.unroll(rest)
