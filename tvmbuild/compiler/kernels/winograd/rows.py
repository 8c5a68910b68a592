"""Winograd's convolution in one function, some rows of tiles at a time, with intermediate results in cache.

For large pictures the transformed input is many times as large as the second-level cache; three functions would move
it through memory twice.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, float32, int64, wide
from tvmbuild.compiler.kernels.winograd.input_transform import write_input
from tvmbuild.compiler.kernels.winograd.transforms import Tiling, write_crop, write_inverse
from tvmbuild.compiler.machine.machine import Machine

_ROWS = "winograd_rows"
_PRODUCTS = "winograd_rows_products"
_OTHER_REGISTERS = 4
"""The number of registers that are kept for operands; the others hold sums."""
_VECTORS = 2
"""The number of vectors of output channels in a register tile."""


def pays_in_rows(tiling: Tiling) -> bool:
    """Return whether groups of rows pay, although each group reads all weights again."""
    if tiling.shape[3] % tiling.lanes[0]:
        return False
    weights = tiling.shape[3] * tiling.panels * tiling.panel
    between = tiling.tiles * (tiling.shape[3] + tiling.panels * tiling.panel)
    return 2 * weights <= between


def make_rows(tiling: Tiling, machine: Machine) -> tirx.PrimFunc:
    """Write the function from NHWC and transformed weights to NHWC; later elementwise operators may be fused to it."""
    batch, rows, columns = tiling.grid
    count = _rows_together(tiling, machine) * columns
    inputs, panels, panel = tiling.shape[3], tiling.panels, tiling.panel
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name(_ROWS)
        T.func_attr({"tirx.noalias": True, "op_pattern": FUSABLE_WITH_ELEMENTWISE})
        data = T.arg("data", T.buffer(wide(*tiling.shape), layout=None))
        weights = T.arg("weights", T.buffer(wide(tiling.positions, panels, inputs, panel), layout=None))
        out = T.arg("out", T.buffer(wide(*tiling.output), layout=None))
        patches = T.sblock_alloc_buffer(wide(tiling.tiles, tiling.size, tiling.size, inputs), layout=None)
        transformed = T.sblock_alloc_buffer(wide(tiling.positions, tiling.tiles, inputs), layout=None)
        products = T.sblock_alloc_buffer(wide(tiling.positions, tiling.tiles, panels, panel), layout=None)
        whole = T.sblock_alloc_buffer(wide(batch, rows * tiling.m, columns * tiling.m, tiling.channels), layout=None)
        with T.parallel(int64(tiling.tiles // count)) as chunk:
            with T.serial(int64(count)) as tile:
                write_input(tiling, (data, patches, transformed), chunk * count + tile)
            _write_products(tiling, (transformed, weights, products), chunk, count)
            with T.serial(int64(count)) as tile:
                write_inverse(tiling, products, whole, chunk * count + tile)
        write_crop(tiling, whole, out)
    return _schedule_products(builder.get(), machine, count)


def _rows_together(tiling: Tiling, machine: Machine) -> int:
    """Return the number of rows of tiles to compute at a time.

    As many are chosen as fit into the cache, but so that each thread gets several groups.
    """
    _, rows, columns = tiling.grid
    row = 4 * tiling.positions * columns * (tiling.shape[3] + tiling.panels * tiling.panel)
    most = min(machine.limits.far_cache // row, rows // (2 * machine.threads))
    return max(count for count in range(1, rows + 1) if rows % count == 0 and (count == 1 or count <= most))


def _write_products(tiling: Tiling, buffers: tuple[Any, Any, Any], chunk: Any, count: int) -> None:
    transformed, weights, products = buffers
    extents = wide(tiling.positions, tiling.panels, count, tiling.panel, tiling.shape[3])
    with T.grid(*extents) as (position, panel, tile, channel, inputs), T.sblock(_PRODUCTS):
        p = T.axis.spatial(extents[0], position)
        t = T.axis.spatial(int64(tiling.tiles), chunk * count + tile)
        b = T.axis.spatial(extents[1], panel)
        c = T.axis.spatial(extents[3], channel)
        k = T.axis.reduce(extents[4], inputs)
        T.reads(transformed[p, t, k], weights[p, b, k, c])
        T.writes(products[p, t, b, c])
        with T.init():
            T.buffer_store(products, float32(0), [p, t, b, c])
        T.buffer_store(products, products[p, t, b, c] + transformed[p, t, k] * weights[p, b, k, c], [p, t, b, c])


def _schedule_products(function: tirx.PrimFunc, machine: Machine, count: int) -> tirx.PrimFunc:
    """Schedule the products with register tiles: sums of some tiles of the picture x some vectors of channels."""
    sch = s_tir.Schedule(function)
    block = sch.get_sblock(_PRODUCTS)
    *_, tile, channel, inputs = sch.get_loops(block)
    channels = int(sch.get(channel).extent)
    lanes = min(machine.lanes(32), channels)
    vectors = channels // lanes
    wide_vectors = _VECTORS if vectors % _VECTORS == 0 else 1
    most = (machine.registers - _OTHER_REGISTERS) // wide_vectors
    together = max(each for each in range(1, most + 1) if count % each == 0)
    far_tile, near_tile = sch.split(tile, [None, together])
    far, near, lane = sch.split(channel, [None, wide_vectors, lanes])
    sch.reorder(far, far_tile, inputs, near_tile, near, lane)
    sums = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(sums, far_tile)
    vector = sch.split(sch.get_loops(sums)[-1], [None, lanes])[1]
    for loop in (near_tile, near, *sch.get_loops(sums)[-3:-1]):
        sch.unroll(loop)
    for loop in (lane, vector):
        sch.vectorize(loop)
    sch.decompose_reduction(block, inputs)
    return sch.mod["main"].with_attrs(dict(function.attrs))
