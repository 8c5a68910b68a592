"""Products of 16 x 16 x 16 tiles of float16 by CUDA's `wmma`: each tile is a fragment, which TVM supports.

A fragment is spread over the registers of a warp; only its 32 threads together can read or write it.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import SIDE, Scopes
from tvmbuild.compiler.codegen.tensor_cores.tiles import Tiles

_SCOPES: Scopes = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")


def make() -> Tiles:
    """Return the tiles of float16."""
    return Tiles("float16", SIDE, _SCOPES, _fill, _load, _load, _multiply, _store)


def _fill(sums: Any) -> Any:
    return T.tvm_fill_fragment(*_place(sums), T.float32(0), dtype="void")


def _load(source: Any, tile: Any) -> Any:
    pointer = source.access_ptr("r", ptr_type="float16")
    return T.tvm_load_matrix_sync(*_place(tile), pointer, source.strides[0], "row_major", dtype="void")


def _multiply(left: Any, right: Any, sums: Any) -> Any:
    fragments = ((each.data, _which(each)) for each in (sums, left, right, sums))
    return T.tvm_mma_sync(*chain.from_iterable(fragments), dtype="void")


def _store(sums: Any, target: Any) -> Any:
    pointer = target.access_ptr("w", ptr_type="float32")
    return T.tvm_store_matrix_sync(*_place(sums), pointer, target.strides[0], "row_major", dtype="void")


def _place(tile: Any) -> tuple[Any, ...]:
    """Return the arguments that name a tile: its buffer, its three sizes, and its fragment's index in the buffer."""
    return tile.data, SIDE, SIDE, SIDE, _which(tile)


def _which(tile: Any) -> Any:
    stride = tile.strides[0]
    return tile.elem_offset // stride // SIDE * (stride // SIDE) + tile.elem_offset % stride // SIDE
