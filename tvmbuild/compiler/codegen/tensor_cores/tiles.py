"""The steps of a product on tensor cores, each as TVM needs it: loops to look for, and a call that replaces them.

The calls depend on the programming interface (wmma.py, mma.py); the loops are the same.
"""

# mypy: disable-error-code="valid-type, untyped-decorator"
# TVM parses these annotations; Python does not evaluate them.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import Scopes, Steps

Call = Callable[..., Any]
_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
_COPIED = 16
"""The alignment of an operand's tile in shared memory, in bytes."""


@dataclass(frozen=True)
class Tiles:
    """The operands' tiles, 16 x ``depth`` and ``depth`` x 16, and the functions that return calls on tiles."""

    dtype: str
    depth: int
    scopes: Scopes
    fill: Call
    """The function for a call that zeroes the sums; its argument is (sums)."""
    load_left: Call
    """The function for a call that loads an operand's tile; its arguments are (source, tile), as for ``load_right``."""
    load_right: Call
    multiply: Call
    """The function for a call that adds a product to the sums; its arguments are (left, right, sums)."""
    store: Call
    """The function for a call that stores the sums; its arguments are (sums, target)."""

    @property
    def operand_scope(self) -> str:
        """Return the scope of the operands in shared memory, where the float32 sums are later.

        Both share the launch's memory if they have one type, so that larger tiles fit. TVM cannot let tiles of two
        types share it ("element type must match the source buffer").
        """
        return "shared.dyn" if self.dtype == "float32" else "shared"

    def write_steps(self) -> Steps:
        """Return the loops of each step and their replacement, by the step's name."""
        straight, turned, implementation = _multiply(self)
        return {
            "load_left": _load(self, 0, (16, self.depth), self.load_left),
            "load_right": _load(self, 1, (self.depth, 16), self.load_right),
            "multiply": (straight, implementation),
            "multiply_turned": (turned, implementation),
            "fill": _fill(self),
            "store": _store(self),
        }


def _fill(tiles: Tiles) -> tuple[Any, Any]:
    call, scope = tiles.fill, tiles.scopes[2]

    @T.prim_func(s_tir=True)
    def description(sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope=scope)) -> None:
        with T.sblock("root"):
            T.reads()
            T.writes(sums[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.sblock("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    sums[vi, vj] = T.float32(0)

    @T.prim_func(s_tir=True)
    def implementation(c: T.handle) -> None:
        c1, c0 = T.int32(), T.int32()
        sums = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=16, scope=scope, strides=[c1, c0])
        with T.sblock("root"):
            T.reads()
            T.writes(sums[0:16, 0:16])
            T.evaluate(call(sums))

    return description, implementation


def _load(tiles: Tiles, which: int, shape: tuple[int, int], call: Call) -> tuple[Any, Any]:
    dtype, (rows, columns), scope, shared = tiles.dtype, shape, tiles.scopes[which], tiles.operand_scope
    aligned = _COPIED // _BYTES[dtype]

    @T.prim_func(s_tir=True)
    def description(
        source: T.Buffer((rows, columns), dtype, align=64, offset_factor=aligned, scope=shared),
        tile: T.Buffer((rows, columns), dtype, align=64, offset_factor=columns, scope=scope),
    ) -> None:
        with T.sblock("root"):
            T.reads(source[0:rows, 0:columns])
            T.writes(tile[0:rows, 0:columns])
            for i, j in T.grid(rows, columns):
                with T.sblock("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    tile[vi, vj] = source[vi, vj]

    @T.prim_func(s_tir=True)
    def implementation(a: T.handle, c: T.handle) -> None:
        a1, a0, c1, c0 = T.int32(), T.int32(), T.int32(), T.int32()
        source = T.match_buffer(
            a, (rows, columns), dtype, align=64, offset_factor=aligned, scope=shared, strides=[a1, a0]
        )
        tile = T.match_buffer(c, (rows, columns), dtype, align=64, offset_factor=columns, scope=scope, strides=[c1, c0])
        with T.sblock("root"):
            T.reads(source[0:rows, 0:columns])
            T.writes(tile[0:rows, 0:columns])
            T.evaluate(call(source, tile))

    return description, implementation


def _multiply(tiles: Tiles) -> tuple[Any, Any, Any]:
    dtype, depth, call = tiles.dtype, tiles.depth, tiles.multiply
    of_left, of_right, of_sums = tiles.scopes

    def wide(value: Any) -> Any:
        return value if dtype == "float32" else T.cast(value, "float32")

    @T.prim_func(s_tir=True)
    def description(
        left: T.Buffer((16, depth), dtype, align=64, offset_factor=depth, scope=of_left),
        right: T.Buffer((depth, 16), dtype, align=64, offset_factor=16, scope=of_right),
        sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope=of_sums),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], left[0:16, 0:depth], right[0:depth, 0:16])
            T.writes(sums[0:16, 0:16])
            for i, j, k in T.grid(16, 16, depth):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    sums[vi, vj] = sums[vi, vj] + wide(left[vi, vk]) * wide(right[vk, vj])

    @T.prim_func(s_tir=True)
    def turned(
        left: T.Buffer((16, depth), dtype, align=64, offset_factor=depth, scope=of_left),
        right: T.Buffer((depth, 16), dtype, align=64, offset_factor=16, scope=of_right),
        sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope=of_sums),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], right[0:depth, 0:16], left[0:16, 0:depth])
            T.writes(sums[0:16, 0:16])
            for i, j, k in T.grid(16, 16, depth):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    sums[vi, vj] = sums[vi, vj] + wide(right[vk, vj]) * wide(left[vi, vk])

    @T.prim_func(s_tir=True)
    def implementation(a: T.handle, b: T.handle, c: T.handle) -> None:
        a1, a0, b1, b0, c1, c0 = T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        left = T.match_buffer(a, (16, depth), dtype, align=64, offset_factor=depth, scope=of_left, strides=[a1, a0])
        right = T.match_buffer(b, (depth, 16), dtype, align=64, offset_factor=16, scope=of_right, strides=[b1, b0])
        sums = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=16, scope=of_sums, strides=[c1, c0])
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], left[0:16, 0:depth], right[0:depth, 0:16])
            T.writes(sums[0:16, 0:16])
            T.evaluate(call(left, right, sums))

    return description, turned, implementation


def _store(tiles: Tiles) -> tuple[Any, Any]:
    call, scope = tiles.store, tiles.scopes[2]

    @T.prim_func(s_tir=True)
    def description(
        tile: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope=scope),
        target: T.Buffer((16, 16), "float32", align=64, offset_factor=4, scope="shared.dyn"),
    ) -> None:
        with T.sblock("root"):
            T.reads(tile[0:16, 0:16])
            T.writes(target[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.sblock("store"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    target[vi, vj] = tile[vi, vj]

    @T.prim_func(s_tir=True)
    def implementation(a: T.handle, c: T.handle) -> None:
        a1, a0, c1, c0 = T.int32(), T.int32(), T.int32(), T.int32()
        tile = T.match_buffer(a, (16, 16), "float32", align=64, offset_factor=16, scope=scope, strides=[a1, a0])
        target = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=4, scope="shared.dyn", strides=[c1, c0])
        with T.sblock("root"):
            T.reads(tile[0:16, 0:16])
            T.writes(target[0:16, 0:16])
            T.evaluate(call(tile, target))

    return description, implementation
