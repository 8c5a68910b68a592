"""TensorIR's intrinsic `dp4a`, the dot product of four bytes: one instruction on CUDA and Vulkan, plain code elsewhere.

Sources: https://docs.nvidia.com/cuda/parallel-thread-execution/ (`dp4a`) and the SPIR-V specification (`OpSDot`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm import tirx

from tvmbuild.compiler.ir.expressions import int32

DOT = "tirx.dp4a"
"""The name of the intrinsic.

Its arguments are two int32 words a and b and an int32 sum; the result is the sum plus Σ a[i] · b[i] over the four int8
bytes of the words.
"""
BYTES = 4
"""The number of bytes in a word; the first byte is in the lowest bits."""


def multiply_bytes(a: Any, b: Any) -> Any:
    """Return a TensorIR call for the int32 dot product of two int32 words that hold four int8 each."""
    return tirx.call_intrin("int32", DOT, a, b, int32(0))


@cache
def register_byte_products() -> None:
    """Register the lowering of `tirx.dp4a` for CUDA and LLVM, once in a process.

    The Vulkan code generator emits its own instruction for the intrinsic.
    """
    tirx.register_intrin_lowering(DOT, target="cuda", f=_call_cuda)
    tirx.register_intrin_lowering(DOT, target="llvm", f=_multiply_each)


def _call_cuda(call: Any) -> Any:
    return tirx.call_pure_extern("int32", "__dp4a", *call.args)


def _multiply_each(call: Any) -> Any:
    a, b, total = call.args
    for place in range(BYTES):
        total = total + _take(a, place) * _take(b, place)
    return total


def _take(word: Any, place: int) -> Any:
    """Return the signed byte at ``place`` in an int32 word, as an int32."""
    return word << int32(8 * (BYTES - 1 - place)) >> int32(8 * (BYTES - 1))
