"""The TensorIR functions of Winograd's convolution F(m x m, 3 x 3), unrolled, with vectors along the channels.

The functions are written with their final loops: tiles on all threads, vectors of channels inside. Each element is used
once or twice, so that memory decides their time and a search finds little. The coefficients are from Lavin and Gray,
"Fast Algorithms for Convolutional Neural Networks", 2015 (points 0, 1, -1, infinity; for m = 4 also 2, -2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, float32, int64, wide

INVERSE = "winograd_inverse"
"""The name of the inverse transform's block, which identifies the functions that the transform was fused into."""
PRODUCTS = "winograd_products"
"""The name of the matrix products' block, if the products are a separate function."""
CROP = "winograd_crop"

_WEIGHTS = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
}


@dataclass(frozen=True)
class Tiling:
    """The tiling of one convolution (NHWC, 3 x 3, stride 1) in tiles of ``m`` x ``m`` outputs."""

    m: int
    shape: tuple[int, int, int, int]
    """The shape of the input: N, H, W, C."""
    channels: int
    """The number of output channels."""
    padding: tuple[int, int, int, int]
    """The padding: top, left, bottom, right."""
    lanes: tuple[int, int]
    """The number of channels in a vector of the input, and in one of the output. The input channels that remain are
    transformed one by one."""
    panel: int
    """The number of adjacent output channels in the packed weights; the last panel may be padded with zeros."""

    @property
    def size(self) -> int:
        """The number of inputs of a tile in each direction."""
        return self.m + 2

    @property
    def positions(self) -> int:
        """The number of positions in a tile's input; each position has its own matrix product."""
        return self.size**2

    @property
    def output(self) -> tuple[int, int, int, int]:
        """The shape of the output: N, H, W, C."""
        top, left, bottom, right = self.padding
        return self.shape[0], self.shape[1] + top + bottom - 2, self.shape[2] + left + right - 2, self.channels

    @property
    def grid(self) -> tuple[int, int, int]:
        """The numbers of images, rows of tiles, and columns of tiles."""
        return self.shape[0], -(-self.output[1] // self.m), -(-self.output[2] // self.m)

    @property
    def tiles(self) -> int:
        """The number of tiles in all images."""
        batch, rows, columns = self.grid
        return batch * rows * columns

    @property
    def panels(self) -> int:
        """The number of panels of output channels."""
        return -(-self.channels // self.panel)


def transform_weights(weights: NDArray[np.float32], tiling: Tiling) -> NDArray[np.float32]:
    """Transform HWIO weights to [position, panel, input channel, channel of the panel]."""
    factors = np.array(_WEIGHTS[tiling.m])
    unused = tiling.panels * tiling.panel - tiling.channels
    padded = np.pad(weights.astype(np.float64), ((0, 0), (0, 0), (0, 0), (0, unused)))
    whole = np.einsum("ij,jkcd,lk->ilcd", factors, padded, factors)
    whole = whole.reshape(tiling.positions, tiling.shape[3], tiling.panels, tiling.panel)
    return np.ascontiguousarray(whole.transpose(0, 2, 1, 3), dtype=np.float32)


def make_products(tiling: Tiling) -> tirx.PrimFunc:
    """Return the function of the matrix products at all positions: [position, tile, panel, channel of the panel]."""
    inputs = tiling.shape[3]
    data = te.placeholder((tiling.positions, tiling.tiles, inputs), name="data")
    weights = te.placeholder((tiling.positions, tiling.panels, inputs, tiling.panel), name="weights")
    k = te.reduce_axis((0, inputs), name="k")
    shape = (tiling.positions, tiling.tiles, tiling.panels, tiling.panel)
    products = te.compute(shape, lambda p, t, b, c: te.sum(data[p, t, k] * weights[p, b, k, c], axis=k), name=PRODUCTS)
    return te.create_prim_func([data, weights, products])


def make_inverse_transform(tiling: Tiling) -> tirx.PrimFunc:
    """Write the function from products to NHWC; later elementwise operators may be fused to it."""
    m, panel = tiling.m, tiling.panel
    batch, rows, columns = tiling.grid
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name(INVERSE)
        T.func_attr({"tirx.noalias": True, "op_pattern": FUSABLE_WITH_ELEMENTWISE})
        # Int64 shapes: FuseTIR needs the types that TVM gives to the functions after it.
        shape = (tiling.positions, tiling.tiles, tiling.panels, panel)
        data = T.arg("data", T.buffer(wide(*shape), layout=None))
        out = T.arg("out", T.buffer(wide(*tiling.output), layout=None))
        whole = T.sblock_alloc_buffer(wide(batch, rows * m, columns * m, tiling.channels), layout=None)
        with T.parallel(int64(tiling.tiles)) as tile:
            write_inverse(tiling, data, whole, tile)
        write_crop(tiling, whole, out)
    return builder.get()


def write_inverse(tiling: Tiling, data: Any, whole: Any, tile: Any) -> None:
    """Write the loops over the channels of one tile, from its products to the output in whole tiles."""
    m, lanes, panel = tiling.m, tiling.lanes[1], tiling.panel
    tiles, vectors, width, channels = wide(tiling.tiles, tiling.channels // lanes, lanes, tiling.channels)
    with T.serial(vectors) as far, T.vectorized(width) as near, T.sblock(INVERSE):
        t = T.axis.spatial(tiles, tile)
        c = T.axis.spatial(channels, far * lanes + near)
        n, y, x = place(tiling, t)
        T.reads(data[0 : tiling.positions, t, c // panel, c % panel])
        T.writes(whole[n, y : y + m, x : x + m, c])
        span = range(tiling.size)
        values = [[T.bind(data[i * tiling.size + j, t, c // panel, c % panel]) for j in span] for i in span]
        for index, value in enumerate(apply_twice(_OUTPUT[m], values)):
            T.buffer_store(whole, value, [n, y + index // m, x + index % m, c])


def write_crop(tiling: Tiling, whole: Any, out: Any) -> None:
    """Write the loops that copy the output, without the part of the last tiles that is beyond it."""
    with T.grid(*wide(*tiling.output)) as variables, T.sblock(CROP):
        at = T.axis.remap("SSSS", variables)
        T.buffer_store(out, whole[tuple(at)], at)


def place(tiling: Tiling, tile: Any) -> tuple[Any, Any, Any]:
    """Return (image, row, column) of a tile's first output."""
    batch, rows, columns = tiling.grid
    row = tile // columns
    image = row // rows if batch > 1 else tirx.IntImm(str(tile.ty.dtype), 0)
    return image, (row % rows if batch > 1 else row) * tiling.m, tile % columns * tiling.m


def apply_twice(line: Any, values: Sequence[Sequence[Any]]) -> list[Any]:
    """Apply the transform ``line`` to the rows of a square of values, then to its columns; return the result's rows."""
    halves = [[T.bind(value) for value in line(row)] for row in values]
    columns = [line([half[j] for half in halves]) for j in range(len(halves[0]))]
    return [column[i] for i in range(len(columns[0])) for column in columns]


def _output_2(p: Sequence[Any]) -> list[Any]:
    return [p[0] + p[1] + p[2], p[1] - p[2] - p[3]]


def _output_4(p: Sequence[Any]) -> list[Any]:
    near, far = T.bind(p[1] + p[2]), T.bind(p[3] + p[4])
    slope, steep = T.bind(p[1] - p[2]), T.bind(p[3] - p[4])
    return [p[0] + near + far, slope + float32(2) * steep, near + float32(4) * far, slope + float32(8) * steep + p[5]]


_OUTPUT = {2: _output_2, 4: _output_4}
