"""Products of 16 x 16 x 16 tiles of float16 by CUDA's `wmma`: each tile is a fragment that TVM knows.

A fragment is spread over the registers of a warp; only its 32 threads together can read or write it.
"""

# mypy: disable-error-code="valid-type, untyped-decorator"
# TVM reads these annotations, not Python.

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import Scopes, Steps

_SIDE = 16
_SCOPES: Scopes = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")


def make() -> tuple[int, Scopes, Steps]:
    """Return the tiles' depth, where they are kept, and the steps."""
    multiply, multiply_turned, implementation = _multiply()
    steps = {
        "load_left": _load("wmma.matrix_a"),
        "load_right": _load("wmma.matrix_b"),
        "multiply": (multiply, implementation),
        "multiply_turned": (multiply_turned, implementation),
        "fill": _fill(),
        "store": _store(),
    }
    return _SIDE, _SCOPES, steps


def _which(tile: Any, stride: Any) -> Any:
    """Return the number of a tile among the fragments of its buffer."""
    return tile.elem_offset // stride // _SIDE * (stride // _SIDE) + tile.elem_offset % stride // _SIDE


def _fill() -> tuple[Any, Any]:
    @T.prim_func(s_tir=True)
    def description(sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator")) -> None:
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
        sums = T.match_buffer(
            c, (16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator", strides=[c1, c0]
        )
        with T.sblock("root"):
            T.reads()
            T.writes(sums[0:16, 0:16])
            T.evaluate(T.tvm_fill_fragment(sums.data, 16, 16, 16, _which(sums, c1), T.float32(0), dtype="void"))

    return description, implementation


def _load(scope: str) -> tuple[Any, Any]:
    @T.prim_func(s_tir=True)
    def description(
        source: T.Buffer((16, 16), "float16", align=64, offset_factor=8, scope="shared"),
        tile: T.Buffer((16, 16), "float16", align=64, offset_factor=16, scope=scope),
    ) -> None:
        with T.sblock("root"):
            T.reads(source[0:16, 0:16])
            T.writes(tile[0:16, 0:16])
            for i, j in T.grid(16, 16):
                with T.sblock("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    tile[vi, vj] = source[vi, vj]

    @T.prim_func(s_tir=True)
    def implementation(a: T.handle, c: T.handle) -> None:
        a1, a0, c1, c0 = T.int32(), T.int32(), T.int32(), T.int32()
        source = T.match_buffer(a, (16, 16), "float16", align=64, offset_factor=8, scope="shared", strides=[a1, a0])
        tile = T.match_buffer(c, (16, 16), "float16", align=64, offset_factor=16, scope=scope, strides=[c1, c0])
        with T.sblock("root"):
            T.reads(source[0:16, 0:16])
            T.writes(tile[0:16, 0:16])
            T.evaluate(
                T.tvm_load_matrix_sync(
                    tile.data,
                    16,
                    16,
                    16,
                    _which(tile, c1),
                    source.access_ptr("r", ptr_type="float16"),
                    a1,
                    "row_major",
                    dtype="void",
                )
            )

    return description, implementation


def _multiply() -> tuple[Any, Any, Any]:
    @T.prim_func(s_tir=True)
    def description(
        left: T.Buffer((16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_a"),
        right: T.Buffer((16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_b"),
        sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator"),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], left[0:16, 0:16], right[0:16, 0:16])
            T.writes(sums[0:16, 0:16])
            for i, j, k in T.grid(16, 16, 16):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    sums[vi, vj] = sums[vi, vj] + T.cast(left[vi, vk], "float32") * T.cast(right[vk, vj], "float32")

    @T.prim_func(s_tir=True)
    def turned(
        left: T.Buffer((16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_a"),
        right: T.Buffer((16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_b"),
        sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator"),
    ) -> None:
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], right[0:16, 0:16], left[0:16, 0:16])
            T.writes(sums[0:16, 0:16])
            for i, j, k in T.grid(16, 16, 16):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    sums[vi, vj] = sums[vi, vj] + T.cast(right[vk, vj], "float32") * T.cast(left[vi, vk], "float32")

    @T.prim_func(s_tir=True)
    def implementation(a: T.handle, b: T.handle, c: T.handle) -> None:
        a1, a0, b1, b0, c1, c0 = T.int32(), T.int32(), T.int32(), T.int32(), T.int32(), T.int32()
        left = T.match_buffer(
            a, (16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_a", strides=[a1, a0]
        )
        right = T.match_buffer(
            b, (16, 16), "float16", align=64, offset_factor=16, scope="wmma.matrix_b", strides=[b1, b0]
        )
        sums = T.match_buffer(
            c, (16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator", strides=[c1, c0]
        )
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], left[0:16, 0:16], right[0:16, 0:16])
            T.writes(sums[0:16, 0:16])
            T.evaluate(
                T.tvm_mma_sync(
                    sums.data,
                    _which(sums, c1),
                    left.data,
                    _which(left, a1),
                    right.data,
                    _which(right, b1),
                    sums.data,
                    _which(sums, c1),
                    dtype="void",
                )
            )

    return description, turned, implementation


def _store() -> tuple[Any, Any]:
    @T.prim_func(s_tir=True)
    def description(
        tile: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator"),
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
        tile = T.match_buffer(
            a, (16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator", strides=[a1, a0]
        )
        target = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=4, scope="shared.dyn", strides=[c1, c0])
        with T.sblock("root"):
            T.reads(tile[0:16, 0:16])
            T.writes(target[0:16, 0:16])
            T.evaluate(
                T.tvm_store_matrix_sync(
                    tile.data,
                    16,
                    16,
                    16,
                    _which(tile, a1),
                    target.access_ptr("w", ptr_type="float32"),
                    c1,
                    "row_major",
                    dtype="void",
                )
            )

    return description, implementation
