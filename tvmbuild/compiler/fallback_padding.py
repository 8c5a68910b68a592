"""The padded input of a depthwise convolution or a pooling, made a few rows at a time where it is used.

As a pass of its own it would cost as much memory traffic as the convolution. Where every output channel reads all input
channels it costs little beside the sums, and stays one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import s_tir

from tvmbuild.compiler.fallback_nest import Nest, divisors, view_nest
from tvmbuild.compiler.fallback_size import Tile

MOST_ROWS = 16


@dataclass(frozen=True)
class Padding:
    """The block that pads, and how many rows of output are computed from what it makes at once."""

    block: Any
    chunk: int


def find_padding(sch: s_tir.Schedule, nest: Nest, tile: Tile) -> Padding | None:
    """Return the padding of the nest's input if it is best made in parts."""
    rows = [axis for axis in nest.spatial if axis not in (tile.vector, tile.reuse)]
    if not rows or tile.reuse is None:
        return None
    chunk = _choose_rows(rows[-1].extent)
    for block in sch.get_producers(nest.block):
        producer = view_nest(sch, block)
        if producer is None or producer.store is None or producer.reduced or not producer.conditions:
            continue
        reads = [load for load in nest.loads if load.buffer.same_as(producer.store.buffer)]
        is_own = all(load.stride(tile.vector.var) == 1 for load in reads)
        if chunk and is_own and len(sch.get_consumers(block)) == 1:
            return Padding(block, chunk)
    return None


def attach_padding(sch: s_tir.Schedule, padding: Padding, loop: Any, lanes: int) -> None:
    """Make the padding inside ``loop``, in vectors along the channels."""
    sch.compute_at(padding.block, loop)
    loops = sch.get_loops(padding.block)
    if lanes > 1 and int(sch.get(loops[-1]).extent) % lanes == 0:
        sch.vectorize(sch.split(loops[-1], [None, lanes])[1])


def _choose_rows(extent: int) -> int | None:
    """Return how many rows to compute at once: enough that reading the rows around them twice does not matter."""
    few = [each for each in divisors(extent, MOST_ROWS // 2) if each >= 4]
    many = [each for each in divisors(extent, MOST_ROWS) if each > MOST_ROWS // 2]
    return extent if extent < 4 else max(few, default=min(many, default=None))
