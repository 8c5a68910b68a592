"""A schedule by rule for products of float16 on NVIDIA's tensor cores: warps multiply tiles of 16 x 16 x 16.

A block of threads keeps its operands in shared memory, each warp's sums stay in its registers, as fragments; they go
through shared memory to what follows, which any thread computes of any element.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import tvm
from tvm import s_tir

from tvmbuild.compiler.codegen.tensor_core_intrinsics import (
    FILL,
    LOAD_LEFT,
    LOAD_RIGHT,
    MULTIPLY,
    MULTIPLY_TURNED,
    STORE,
    register_tensor_cores,
)
from tvmbuild.compiler.limits import staging_limits
from tvmbuild.compiler.schedules.attempt import try_rule
from tvmbuild.compiler.schedules.gpu.matrices import MatrixProduct
from tvmbuild.compiler.schedules.gpu.tiled_product import TiledProduct
from tvmbuild.compiler.schedules.gpu.tiles import WARP
from tvmbuild.compiler.schedules.gpu.warp_tiles import ALIGNED, SIDE, WarpTile, list_warp_tiles
from tvmbuild.compiler.target import copies_asynchronously, has_tensor_cores

VECTOR, WRITTEN = 8, 4
"""Numbers that a thread copies, and computes of what follows, together: at most, what divides their rows."""


def list_on_tensor_cores(product: MatrixProduct | None, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules, the most promising first; none for what is no product of float16."""
    if product is None or not has_tensor_cores(target) or not _suits(product):
        return []
    limits, ahead = staging_limits(target.attrs), copies_asynchronously(target)
    tiles = list_warp_tiles(product.sizes, limits, limit, ahead=ahead)
    schedules = (try_rule(partial(multiply, product, tile)) for tile in tiles)
    return [schedule for schedule in schedules if schedule is not None]


def multiply(product: MatrixProduct, tile: WarpTile, bind: bool = True) -> s_tir.Schedule:
    """Return a product of float16, summed up in float32, scheduled with that tile.

    Without ``bind`` threads and fragments are loops, which a CPU can run.
    """
    register_tensor_cores()
    return _Multiplying(product, tile, bind).schedule()


def _suits(product: MatrixProduct) -> bool:
    """Say whether operands of float16 that threads can copy in vectors are summed up in float32, and fill a tile."""
    block = product.sch.get(product.block)
    operands = {str(block.reads[which].source.dtype) for which in product.operands}
    sizes = product.sizes
    return (
        operands == {"float16"}
        and str(block.writes[0].source.dtype) == "float32"
        and min(product.runs) > 1
        and min(sizes.rows, sizes.columns, sizes.depth) >= SIDE
    )


class _Multiplying(TiledProduct):
    """The steps of one schedule."""

    def __init__(self, product: MatrixProduct, tile: WarpTile, bind: bool) -> None:
        super().__init__(product, tile, bind)
        self.tile = tile
        self.tiles: list[tuple[Any, str]] = []
        """Loops around a tile, and the intrinsic that is in their place in the end."""

    def schedule(self) -> s_tir.Schedule:
        sch = self.sch
        block, last = self.fill_up("shared")
        store = sch.cache_write(block, 0, "wmma.accumulator")
        sch.set_scope(store, 0, "shared.dyn")
        block_column, written = self.place_blocks(last)
        self.share_out(written, self.count_written(last))
        sch.compute_at(store, block_column, preserve_unit_loops=True)
        warp = self.place_store(store)
        sch.compute_at(block, warp, preserve_unit_loops=True)
        steps, inner = self.place_sum(block)
        for which, intrinsic, scope in ((0, LOAD_LEFT, "wmma.matrix_a"), (1, LOAD_RIGHT, "wmma.matrix_b")):
            operand = self.product.operands[which]
            shared = self.copy_operand(block, which)
            fragment = sch.cache_read(block, operand, scope)
            sch.compute_at(fragment, inner, preserve_unit_loops=True)
            self.make_tiles(fragment, intrinsic)
            sch.compute_at(shared, steps, preserve_unit_loops=True)
            sch.storage_align(shared, 0, len(sch.get(shared).writes[0].source.shape) - 2, ALIGNED * 2, ALIGNED)
            self.share_out(sch.fuse(*self.own_loops(shared)), math.gcd(self.product.runs[which], VECTOR))
        start = sch.decompose_reduction(block, steps)
        self.tiles.append((sch.get_loops(start)[-2], FILL))
        for loop, intrinsic in self.tiles if self.binds else ():
            sch.tensorize(loop, intrinsic)
        self.fetch_ahead(steps)
        return sch

    def fetch_ahead(self, steps: Any) -> None:
        """Have the operands of the next steps on their way while one is multiplied: no thread waits for its copies."""
        if not self.tile.ahead or not self.binds:
            return
        self.sch.annotate(steps, "software_pipeline_stage", [0, 0, self.tile.ahead])
        self.sch.annotate(steps, "software_pipeline_order", [0, 1, 2])
        self.sch.annotate(steps, "software_pipeline_async_stages", [0])

    def count_written(self, last: Any) -> int:
        """Return how much of the output a thread computes together; TVM's vectors of bools are none of CUDA's."""
        block = self.sch.get(last)
        is_bool = any(str(region.source.dtype) == "bool" for region in (*block.reads, *block.writes))
        return 1 if is_bool else math.gcd(self.product.sizes.columns, WRITTEN)

    def share_out(self, loop: Any, few: int) -> None:
        """Have all the block's threads go through a loop, so many steps at a time."""
        sch = self.sch
        rest, warp, thread, together = sch.split(loop, [None, self.tile.warps, WARP, few])
        self.bind(warp, "threadIdx.y")
        self.bind(thread, "threadIdx.x")
        sch.vectorize(together)
        sch.unroll(rest)

    def place_store(self, store: Any) -> Any:
        """Give each warp its tiles of the output; return the warps' loop."""
        sch, tile = self.sch, self.tile
        row, column = sch.get_loops(store)[-2:]
        down, row, inner_row = sch.split(row, [tile.down, tile.rows, SIDE])
        across, column, inner_column = sch.split(column, [tile.across, tile.columns, SIDE])
        sch.reorder(down, across, row, column, inner_row, inner_column)
        warp = sch.fuse(down, across)
        self.bind(warp, "threadIdx.y")
        self.tiles.append((inner_row, STORE))
        return warp

    def place_sum(self, block: Any) -> tuple[Any, Any]:
        """Sum up tile by tile; return the loop of steps and that of the tiles in one."""
        sch, tile = self.sch, self.tile
        row, column, depth = sch.get_loops(block)[-3:]
        row, inner_row = sch.split(row, [None, SIDE])
        column, inner_column = sch.split(column, [None, SIDE])
        steps, inner, inner_depth = sch.split(depth, [None, tile.chunk, SIDE])
        sch.reorder(steps, inner, row, column, inner_row, inner_column, inner_depth)
        sch.unroll(inner)
        sch.unroll(row)
        sch.unroll(column)
        self.tiles.append((inner_row, MULTIPLY_TURNED if self.product.turned else MULTIPLY))
        return steps, inner

    def make_tiles(self, block: Any, intrinsic: str) -> None:
        sch = self.sch
        row, column = sch.get_loops(block)[-2:]
        row, inner_row = sch.split(row, [None, SIDE])
        column, inner_column = sch.split(column, [None, SIDE])
        sch.reorder(row, column, inner_row, inner_column)
        sch.unroll(row)
        sch.unroll(column)
        self.tiles.append((inner_row, intrinsic))
