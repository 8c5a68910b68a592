"""TensorIR's intrinsic `dp4a`, the dot product of four bytes: one instruction on CUDA and Vulkan, plain code elsewhere.

https://docs.nvidia.com/cuda/parallel-thread-execution/ (`dp4a`), SPIR-V's `OpSDot`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm import tirx

from tvmbuild.compiler.ir.expressions import int32

DOT = "tirx.dp4a"
"""The intrinsic's name. It takes two words of int32 and a sum, and adds Σ a[i] · b[i] over their bytes, as int8."""
BYTES = 4
"""The number of bytes in a word; the first byte is in the lowest bits."""


def multiply_bytes(a: Any, b: Any) -> Any:
    """Return the dot product of two words of four int8 each."""
    return tirx.call_intrin("int32", DOT, a, b, int32(0))


@cache
def register_byte_products() -> None:
    """Register the intrinsic's lowering, once in a process; Vulkan's generator has an instruction of its own."""
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
    """Return one byte of the word with its sign."""
    return word << int32(8 * (BYTES - 1 - place)) >> int32(8 * (BYTES - 1))
