"""The input transform of Winograd's convolution: from NHWC to one matrix for each position of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import OPAQUE, float32
from tvmbuild.compiler.kernels.winograd.transforms import Tiling, apply_twice, place


def make_input_transform(tiling: Tiling) -> tirx.PrimFunc:
    """Write the function from NHWC to [position, tile, channel]; padding is read as zeros."""
    channels = tiling.shape[3]
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("winograd_input")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        data = T.arg("data", T.buffer(tiling.shape, layout=None))
        out = T.arg("out", T.buffer((tiling.positions, tiling.tiles, channels), layout=None))
        patches = T.sblock_alloc_buffer((tiling.tiles, tiling.size, tiling.size, channels), layout=None)
        with T.parallel(tiling.tiles) as tile:
            write_input(tiling, (data, patches, out), tile)
    return builder.get()


def write_input(tiling: Tiling, buffers: tuple[Any, Any, Any], tile: Any) -> None:
    """Write the loops over the channels of one tile.

    ``buffers`` are the data, the inputs of the tiles, and the transformed inputs.
    """
    for part in _channel_parts(tiling.shape[3], tiling.lanes[0]):
        _transform_channels(tiling, buffers, tile, part)


@dataclass(frozen=True)
class _ChannelPart:
    """Channels of the input that are transformed in vectors of the same length."""

    first: int
    count: int
    lanes: int
    suffix: str = ""
    """The suffix of the names of the blocks that transform these channels."""


def _channel_parts(channels: int, lanes: int) -> tuple[_ChannelPart, ...]:
    rest = channels % lanes
    parts = (_ChannelPart(0, channels - rest, lanes), _ChannelPart(channels - rest, rest, 1, "_rest"))
    return tuple(part for part in parts if part.count)


def _transform_channels(tiling: Tiling, buffers: tuple[Any, Any, Any], tile: Any, part: _ChannelPart) -> None:
    """Write the loops over some channels of a tile.

    The loops are in two blocks, so that the loop over tiles has two parts: with one part, a search would vectorize
    across tiles.
    """
    data, patches, out = buffers
    span = range(tiling.size)

    def integer(value: int) -> Any:
        return tirx.IntImm(str(tile.ty.dtype), value)

    def channel(far: Any, near: Any) -> Any:
        index = far * part.lanes + near
        return T.axis.spatial(integer(tiling.shape[3]), part.first + index if part.first else index)

    with (
        T.serial(integer(part.count // part.lanes)) as far,
        T.vectorized(integer(part.lanes)) as near,
        T.sblock(f"winograd_pad{part.suffix}"),
    ):
        t, c = T.axis.spatial(integer(tiling.tiles), tile), channel(far, near)
        T.reads(data[0 : tiling.shape[0], 0 : tiling.shape[1], 0 : tiling.shape[2], c])
        T.writes(patches[t, 0 : tiling.size, 0 : tiling.size, c])
        for i, j in product(span, span):
            T.buffer_store(patches, _load_padded(data, tiling, (t, i, j), c), [t, i, j, c])
    with (
        T.serial(integer(part.count // part.lanes)) as far,
        T.vectorized(integer(part.lanes)) as near,
        T.sblock(f"winograd_input{part.suffix}"),
    ):
        t, c = T.axis.spatial(integer(tiling.tiles), tile), channel(far, near)
        T.reads(patches[t, 0 : tiling.size, 0 : tiling.size, c])
        T.writes(out[0 : tiling.positions, t, c])
        values = [[T.bind(patches[t, i, j, c]) for j in span] for i in span]
        for index, value in enumerate(apply_twice(_INPUT[tiling.m], values)):
            T.buffer_store(out, value, [index, t, c])


def _load_padded(data: Any, tiling: Tiling, where: tuple[Any, int, int], channel: Any) -> Any:
    """Return the element (row, column) of a tile's input, with a condition if the element may be padding.

    ``where`` is (tile, row, column).
    """
    tile, row, column = where
    image, y, x = place(tiling, tile)
    y, x = y + (row - tiling.padding[0]), x + (column - tiling.padding[1])
    conditions = []
    for index, direction, offset in ((y, 0, row), (x, 1, column)):
        first = offset - tiling.padding[direction]
        if first < 0:
            conditions.append(index >= 0)
        if (tiling.grid[1 + direction] - 1) * tiling.m + first >= tiling.shape[1 + direction]:
            conditions.append(index < tiling.shape[1 + direction])
    value = data[image, y, x, channel]
    return tirx.if_then_else(tirx.all(*conditions), value, float32(0)) if conditions else value


def _input_2(d: Sequence[Any]) -> list[Any]:
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _input_4(d: Sequence[Any]) -> list[Any]:
    even, odd = T.bind(d[4] - float32(4) * d[2]), T.bind(d[3] - float32(4) * d[1])
    near, far = T.bind(d[4] - d[2]), T.bind(float32(2) * (d[3] - d[1]))
    first = float32(4) * d[0] - float32(5) * d[2] + d[4]
    last = float32(4) * d[1] - float32(5) * d[3] + d[5]
    return [first, even + odd, even - odd, near + far, near - far, last]


_INPUT = {2: _input_2, 4: _input_4}
