"""Products of tiles of bfloat16, and of float32 as TF32, by PTX's `mma.sync`; TVM's `wmma` lacks these types.

A tile occupies some registers in each of a warp's 32 threads. TVM treats it as a local buffer of each thread; the
registers are the first elements of that buffer. The PTX ISA shows which thread has which elements, in "Matrix Fragments
for mma.m16n8k8" and "mma.m16n8k16": https://docs.nvidia.com/cuda/parallel-thread-execution/
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm.backend.cuda.op import cuda_func_call

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import Scopes
from tvmbuild.compiler.codegen.tensor_cores.tiles import Tiles

_SCOPES: Scopes = ("local", "local", "local")
_TF32, _BFLOAT16 = 8, 16
_LANE = "const int row = threadIdx.x >> 2, column = threadIdx.x & 3;"
"""The code for the row and column at which a thread's part of a tile begins; a block's first dimension is one warp."""

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
# A thread's two steps of the depth are neighbours in memory, not four apart as in the PTX ISA: both operands have the
# same order, and the left one is read in pairs.
_LEFT_TF32 = f"""
__forceinline__ __device__ void tvmbuild_left_float32(float* tile, const float* source, int stride) {{
  {_LANE}
#pragma unroll
  for (int half = 0; half < 2; ++half) {{
    const float2 pair = *(const float2*)(source + (row + half * 8) * stride + column * 2);
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(((unsigned*)tile)[half]) : "f"(pair.x));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(((unsigned*)tile)[half + 2]) : "f"(pair.y));
  }}
}}
"""
_RIGHT_TF32 = f"""
__forceinline__ __device__ void tvmbuild_right_float32(float* tile, const float* source, int stride) {{
  {_LANE}
#pragma unroll
  for (int i = 0; i < 4; ++i) {{
    const float number = source[(column * 2 + i % 2) * stride + row + i / 2 * 8];
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(((unsigned*)tile)[i]) : "f"(number));
  }}
}}
"""
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


def make_tf32() -> Tiles:
    """Return the tiles of float32, whose elements are rounded to TF32 (10 bits of mantissa) when they are loaded."""
    multiply = _MULTIPLY.format(name="float32", shape="m16n8k8", type="tf32")
    return _make("float32", _TF32, (_LEFT_TF32, _RIGHT_TF32), multiply)


def make_bfloat16() -> Tiles:
    """Return the tiles of bfloat16."""
    multiply = _MULTIPLY.format(name="bfloat16", shape="m16n8k16", type="bf16")
    return _make("bfloat16", _BFLOAT16, (_LEFT_BFLOAT16, _RIGHT_BFLOAT16), multiply)


def _make(dtype: str, depth: int, loads: tuple[str, str], source: str) -> Tiles:
    def load(side: str, written: str, shared: Any, tile: Any) -> Any:
        pointers = tile.access_ptr("w", ptr_type=dtype), shared.access_ptr("r", ptr_type=dtype)
        return cuda_func_call(f"tvmbuild_{side}_{dtype}", *pointers, shared.strides[0], source_code=written)

    def multiply(left: Any, right: Any, sums: Any) -> Any:
        operands = (each.access_ptr("r", ptr_type=dtype) for each in (left, right))
        total = sums.access_ptr("rw", ptr_type="float32")
        return cuda_func_call(f"tvmbuild_multiply_{dtype}", total, *operands, source_code=source)

    left, right = (partial(load, *each) for each in zip(("left", "right"), loads, strict=True))
    return Tiles(dtype, depth, _SCOPES, _fill, left, right, multiply, _store)


def _fill(sums: Any) -> Any:
    return cuda_func_call("tvmbuild_fill", sums.access_ptr("w", ptr_type="float32"), source_code=_FILL)


def _store(sums: Any, target: Any) -> Any:
    pointers = sums.access_ptr("r", ptr_type="float32"), target.access_ptr("w", ptr_type="float32")
    return cuda_func_call("tvmbuild_store", *pointers, target.strides[0], source_code=_STORE)
