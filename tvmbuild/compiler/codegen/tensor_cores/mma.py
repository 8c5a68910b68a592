"""Products of tiles of bfloat16 and of float32 as TF32, by PTX's `mma.sync`, which TVM's `wmma` does not know.

A tile is some registers of each of a warp's 32 threads: the first numbers of what TVM takes for each thread's own copy.
Which of them are whose is in the PTX ISA, "Matrix Fragments for mma.m16n8k8" and "mma.m16n8k16":
https://docs.nvidia.com/cuda/parallel-thread-execution/
"""

# mypy: disable-error-code="valid-type, untyped-decorator"
# TVM reads these annotations, not Python.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm.backend.cuda.op import cuda_func_call
from tvm.script import tirx as T  # noqa: N812 - as its scripts are written

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import Scopes, Steps

_SCOPES: Scopes = ("local", "local", "local")
_TF32, _BFLOAT16 = 8, 16
_LANE = "const int row = threadIdx.x >> 2, column = threadIdx.x & 3;"
"""What of a tile is a thread's begins there; the first dimension of a block of threads is a warp."""

_FILL = """
__forceinline__ __device__ void tvmbuild_fill(float* sums) {
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] = 0.0f;
}
"""
_STORE = f"""
__forceinline__ __device__ void tvmbuild_store(const float* sums, float* target, int stride) {{
  {_LANE}
#pragma unroll
  for (int half = 0; half < 2; ++half) {{
    float* at = target + row * stride + half * 8 + column * 2;
    *(float2*)at = make_float2(sums[half * 4], sums[half * 4 + 1]);
    *(float2*)(at + 8 * stride) = make_float2(sums[half * 4 + 2], sums[half * 4 + 3]);
  }}
}}
"""
_LOAD_TF32 = """
__forceinline__ __device__ void tvmbuild_{side}_float32(float* tile, const float* source, int stride) {{
  {lane}
#pragma unroll
  for (int i = 0; i < 4; ++i) {{
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(source[{index}]));
    tile[i] = __uint_as_float(rounded);
  }}
}}
"""
_LEFT_TF32 = _LOAD_TF32.format(side="left", lane=_LANE, index="(row + i % 2 * 8) * stride + column + i / 2 * 4")
_RIGHT_TF32 = _LOAD_TF32.format(side="right", lane=_LANE, index="(column + i % 2 * 4) * stride + row + i / 2 * 8")
_LEFT_BFLOAT16 = f"""
__forceinline__ __device__ void tvmbuild_left_bfloat16(nv_bfloat16* tile, const nv_bfloat16* source, int stride) {{
  {_LANE}
#pragma unroll
  for (int i = 0; i < 4; ++i)
    ((unsigned*)tile)[i] = *(const unsigned*)(source + (row + i % 2 * 8) * stride + column * 2 + i / 2 * 8);
}}
"""
_RIGHT_BFLOAT16 = f"""
__forceinline__ __device__ void tvmbuild_right_bfloat16(nv_bfloat16* tile, const nv_bfloat16* source, int stride) {{
  {_LANE}
#pragma unroll
  for (int i = 0; i < 4; ++i) {{
    const unsigned short* at = (const unsigned short*)source + (column * 2 + i % 2 * 8) * stride + row + i / 2 * 8;
    ((unsigned*)tile)[i] = at[0] | (unsigned)at[stride] << 16;
  }}
}}
"""
_MULTIPLY = """
__forceinline__ __device__ void tvmbuild_multiply_{name}(float* sums, const void* left, const void* right) {{
  const unsigned *a = (const unsigned*)left, *b = (const unsigned*)right;
#pragma unroll
  for (int half = 0; half < 2; ++half) {{
    float* to = sums + half * 4;
    asm volatile("mma.sync.aligned.{shape}.row.col.f32.{type}.{type}.f32 {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, "
                 "{{%0,%1,%2,%3}};"
                 : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[half * 2]), "r"(b[half * 2 + 1]));
  }}
}}
"""


def make_tf32() -> tuple[int, Scopes, Steps]:
    """Return the tiles' depth, where they are kept, and the steps: of float32, rounded to 10 bits as it is loaded."""
    multiply = _MULTIPLY.format(name="float32", shape="m16n8k8", type="tf32")
    return _TF32, _SCOPES, _make("float32", _TF32, (_LEFT_TF32, _RIGHT_TF32), multiply)


def make_bfloat16() -> tuple[int, Scopes, Steps]:
    """Return the tiles' depth, where they are kept, and the steps."""
    multiply = _MULTIPLY.format(name="bfloat16", shape="m16n8k16", type="bf16")
    return _BFLOAT16, _SCOPES, _make("bfloat16", _BFLOAT16, (_LEFT_BFLOAT16, _RIGHT_BFLOAT16), multiply)


def _make(dtype: str, depth: int, loads: tuple[str, str], multiply: str) -> Steps:
    straight, turned, implementation = _multiply(dtype, depth, multiply)
    left, right = (
        partial(cuda_func_call, f"tvmbuild_{side}_{dtype}", source_code=source)
        for side, source in zip(("left", "right"), loads, strict=True)
    )
    return {
        "load_left": _load(dtype, (16, depth), left),
        "load_right": _load(dtype, (depth, 16), right),
        "multiply": (straight, implementation),
        "multiply_turned": (turned, implementation),
        "fill": _fill(),
        "store": _store(),
    }


def _fill() -> tuple[Any, Any]:
    call = partial(cuda_func_call, "tvmbuild_fill", source_code=_FILL)

    @T.prim_func(s_tir=True)
    def description(sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="local")) -> None:
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
        sums = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=16, scope="local", strides=[c1, c0])
        with T.sblock("root"):
            T.reads()
            T.writes(sums[0:16, 0:16])
            T.evaluate(call(sums.access_ptr("w", ptr_type="float32")))

    return description, implementation


def _load(dtype: str, shape: tuple[int, int], call: Callable[..., Any]) -> tuple[Any, Any]:
    rows, columns = shape
    aligned = 16 // (4 if dtype == "float32" else 2)

    @T.prim_func(s_tir=True)
    def description(
        source: T.Buffer((rows, columns), dtype, align=64, offset_factor=aligned, scope="shared"),
        tile: T.Buffer((rows, columns), dtype, align=64, offset_factor=columns, scope="local"),
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
            a, (rows, columns), dtype, align=64, offset_factor=aligned, scope="shared", strides=[a1, a0]
        )
        tile = T.match_buffer(
            c, (rows, columns), dtype, align=64, offset_factor=columns, scope="local", strides=[c1, c0]
        )
        with T.sblock("root"):
            T.reads(source[0:rows, 0:columns])
            T.writes(tile[0:rows, 0:columns])
            T.evaluate(call(tile.access_ptr("w", ptr_type=dtype), source.access_ptr("r", ptr_type=dtype), a1))

    return description, implementation


def _multiply(dtype: str, depth: int, source: str) -> tuple[Any, Any, Any]:
    call = partial(cuda_func_call, f"tvmbuild_multiply_{dtype}", source_code=source)

    def wide(value: Any) -> Any:
        return value if dtype == "float32" else T.cast(value, "float32")

    @T.prim_func(s_tir=True)
    def description(
        left: T.Buffer((16, depth), dtype, align=64, offset_factor=depth, scope="local"),
        right: T.Buffer((depth, 16), dtype, align=64, offset_factor=16, scope="local"),
        sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="local"),
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
        left: T.Buffer((16, depth), dtype, align=64, offset_factor=depth, scope="local"),
        right: T.Buffer((depth, 16), dtype, align=64, offset_factor=16, scope="local"),
        sums: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="local"),
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
        left = T.match_buffer(a, (16, depth), dtype, align=64, offset_factor=depth, scope="local", strides=[a1, a0])
        right = T.match_buffer(b, (depth, 16), dtype, align=64, offset_factor=16, scope="local", strides=[b1, b0])
        sums = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=16, scope="local", strides=[c1, c0])
        with T.sblock("root"):
            T.reads(sums[0:16, 0:16], left[0:16, 0:depth], right[0:depth, 0:16])
            T.writes(sums[0:16, 0:16])
            T.evaluate(
                call(
                    sums.access_ptr("rw", ptr_type="float32"),
                    left.access_ptr("r", ptr_type=dtype),
                    right.access_ptr("r", ptr_type=dtype),
                )
            )

    return description, turned, implementation


def _store() -> tuple[Any, Any]:
    call = partial(cuda_func_call, "tvmbuild_store", source_code=_STORE)

    @T.prim_func(s_tir=True)
    def description(
        tile: T.Buffer((16, 16), "float32", align=64, offset_factor=16, scope="local"),
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
        tile = T.match_buffer(a, (16, 16), "float32", align=64, offset_factor=16, scope="local", strides=[a1, a0])
        target = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=4, scope="shared.dyn", strides=[c1, c0])
        with T.sblock("root"):
            T.reads(tile[0:16, 0:16])
            T.writes(target[0:16, 0:16])
            T.evaluate(call(tile.access_ptr("r", ptr_type="float32"), target.access_ptr("w", ptr_type="float32"), c1))

    return description, implementation
