"""A schedule rule for products on NVIDIA's tensor cores: warps multiply tiles of 16 x 16.

A block of threads keeps its operands in shared memory, and each warp its sums in registers, as fragments. The sums go
through shared memory to the epilogue, in which any thread computes any element.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import s_tir

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import SIDE
from tvmbuild.compiler.codegen.tensor_cores.table import register_tensor_cores
from tvmbuild.compiler.ir.prim_funcs import allows_tf32
from tvmbuild.compiler.machine.limits import staging_limits
from tvmbuild.compiler.machine.target import copies_asynchronously, tensor_core_types
from tvmbuild.compiler.schedules.attempt import try_rule
from tvmbuild.compiler.schedules.gpu.matrices import MatrixProduct
from tvmbuild.compiler.schedules.gpu.tiled_product import TiledProduct
from tvmbuild.compiler.schedules.gpu.tiles import WARP
from tvmbuild.compiler.schedules.gpu.warp_tiles import VECTOR_BYTES, WarpTile, list_warp_tiles, row_padding

FEWEST = 8
"""The smallest number of rows or columns of a product. Down to this number, a tile that is padded with zeros is faster
than other rules (measured on an H200)."""
WRITTEN = 4
"""The largest number of outputs that a thread computes together in the epilogue; the actual number divides the
columns."""


def list_on_tensor_cores(product: MatrixProduct | None, target: tvm.target.Target, limit: int) -> list[s_tir.Schedule]:
    """Return at most ``limit`` schedules, the most promising first; an empty list if tensor cores do not suit."""
    if product is None or not _suits(product, target):
        return []
    limits, ahead = staging_limits(target.attrs), copies_asynchronously(target)
    tiles = list_warp_tiles(product.sizes, limits, limit, ahead=ahead)
    schedules = (try_rule(multiply, product, tile) for tile in tiles)
    return [schedule for schedule in schedules if schedule is not None]


def multiply(product: MatrixProduct, tile: WarpTile, bind: bool = True) -> s_tir.Schedule:
    """Return the schedule of a matrix product with the warp tile; it adds up in float32.

    If ``bind`` is False, threads and fragments are plain loops, so that a CPU can run the function.
    """
    return _Multiplying(product, tile, bind).schedule()


def _suits(product: MatrixProduct, target: tvm.target.Target) -> bool:
    """Return whether tensor cores take the operands' dtype, vectors can copy them, and the tiles are full enough."""
    sizes, tf32 = product.sizes, allows_tf32(product.sch.mod["main"])
    return (
        product.operand_type in tensor_core_types(target, tf32=tf32)
        and product.sums_type == "float32"
        and min(product.runs) > 1
        and min(sizes.rows, sizes.columns) >= FEWEST
        and min(max(sizes.rows, sizes.columns), sizes.depth) >= SIDE
    )


class _Multiplying(TiledProduct):
    """The construction of one schedule for tensor cores."""

    def __init__(self, product: MatrixProduct, tile: WarpTile, bind: bool) -> None:
        super().__init__(product, tile, bind)
        self.tile = tile
        self.intrinsics = register_tensor_cores(product.operand_type)
        self.depth, self.operand_scope = self.intrinsics.depth, self.intrinsics.operand_scope
        self.tiles: list[tuple[Any, str]] = []
        """The outermost loop of each tile, and the intrinsic that replaces the tile's loops at the end."""

    def schedule(self) -> s_tir.Schedule:
        sch = self.sch
        block, last = self.fill_up("shared")
        store = sch.cache_write(block, 0, self.intrinsics.scopes[2])
        sch.set_scope(store, 0, "shared.dyn")
        block_column, written = self.place_blocks(last)
        self.share_out(written, self.count_written(last))
        sch.compute_at(store, block_column, preserve_unit_loops=True)
        warp = self.place_store(store)
        sch.compute_at(block, warp, preserve_unit_loops=True)
        steps, inner = self.place_sum(block)
        few = VECTOR_BYTES // self.product.sizes.operand_bytes
        padding = row_padding(self.product.sizes.operand_bytes)
        for which, scope in enumerate(self.intrinsics.scopes[:2]):
            operand = self.product.operands[which]
            shared = self.copy_operand(block, which)
            fragment = sch.cache_read(block, operand, scope)
            sch.compute_at(fragment, inner, preserve_unit_loops=True)
            self.make_tiles(fragment, which)
            sch.compute_at(shared, steps, preserve_unit_loops=True)
            rows = len(sch.get(shared).writes[0].source.shape) - 2
            sch.storage_align(shared, 0, rows, padding[which] * 2, padding[which])
            self.share_out(sch.fuse(*self.own_loops(shared)), math.gcd(self.product.runs[which], few))
        start = sch.decompose_reduction(block, steps)
        self.tiles.append((sch.get_loops(start)[-2], self.intrinsics.fill))
        for loop, intrinsic in self.tiles if self.binds else ():
            sch.tensorize(loop, intrinsic)
        self.fetch_ahead(steps)
        return sch

    def fetch_ahead(self, steps: Any) -> None:
        """Copy the operands of the next steps during a multiplication, so that no thread waits for its copies."""
        if not self.tile.ahead or not self.binds:
            return
        self.sch.annotate(steps, "software_pipeline_stage", [0, 0, self.tile.ahead])
        self.sch.annotate(steps, "software_pipeline_order", [0, 1, 2])
        self.sch.annotate(steps, "software_pipeline_async_stages", [0])

    def count_written(self, last: Any) -> int:
        """Return the number of outputs that a thread computes together; it is 1 if an operand is Boolean.

        CUDA does not have TVM's vectors of Booleans.
        """
        block = self.sch.get(last)
        is_bool = any(str(region.source.dtype) == "bool" for region in (*block.reads, *block.writes))
        return 1 if is_bool else math.gcd(self.product.sizes.columns, WRITTEN)

    def share_out(self, loop: Any, few: int) -> None:
        """Distribute a loop over all threads of the block, ``few`` steps at a time as a vector."""
        sch = self.sch
        rest, warp, thread, together = sch.split(loop, [None, self.tile.warps, WARP, few])
        self.bind(warp, "threadIdx.y")
        self.bind(thread, "threadIdx.x")
        sch.vectorize(together)
        sch.unroll(rest)

    def place_store(self, store: Any) -> Any:
        """Give each warp its tiles of the output; return the loop of warps."""
        sch, tile = self.sch, self.tile
        row, column = sch.get_loops(store)[-2:]
        down, row, inner_row = sch.split(row, [tile.down, tile.rows, SIDE])
        across, column, inner_column = sch.split(column, [tile.across, tile.columns, SIDE])
        sch.reorder(down, across, row, column, inner_row, inner_column)
        warp = sch.fuse(down, across)
        self.bind(warp, "threadIdx.y")
        self.tiles.append((inner_row, self.intrinsics.store))
        return warp

    def place_sum(self, block: Any) -> tuple[Any, Any]:
        """Sum up tile by tile; return the loop of steps and the loop over the tiles in one step."""
        sch, tile = self.sch, self.tile
        row, column, depth = sch.get_loops(block)[-3:]
        row, inner_row = sch.split(row, [None, SIDE])
        column, inner_column = sch.split(column, [None, SIDE])
        steps, inner, inner_depth = sch.split(depth, [None, tile.step // self.depth, self.depth])
        sch.reorder(steps, inner, row, column, inner_row, inner_column, inner_depth)
        sch.unroll(inner)
        sch.unroll(row)
        sch.unroll(column)
        straight, turned = self.intrinsics.multiply, self.intrinsics.multiply_turned
        self.tiles.append((inner_row, turned if self.product.turned else straight))
        return steps, inner

    def make_tiles(self, block: Any, which: int) -> None:
        sch = self.sch
        row, column = sch.get_loops(block)[-2:]
        row, inner_row = sch.split(row, [None, SIDE if which == 0 else self.depth])
        column, inner_column = sch.split(column, [None, self.depth if which == 0 else SIDE])
        sch.reorder(row, column, inner_row, inner_column)
        sch.unroll(row)
        sch.unroll(column)
        self.tiles.append((inner_row, (self.intrinsics.load_left, self.intrinsics.load_right)[which]))
