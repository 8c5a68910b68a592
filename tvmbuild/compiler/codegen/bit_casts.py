"""Casts between the bits of floats and integers in CUDA code.

TVM writes `*(int *)(&x)`, for which x must have an address: NVRTC refuses it for a sum, a function's result or a
constant. CUDA has functions for scalars. Source: CUDA Math API, "Type Casting Intrinsics".
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm import tirx

from tvmbuild.compiler.codegen.polynomials import dtype_of

_LEVEL = 99
"""The priority of our lowering rule; TVM's have 10."""
_FUNCTIONS = {
    ("float16", "int16"): "__half_as_short",
    ("float16", "uint16"): "__half_as_ushort",
    ("float32", "int32"): "__float_as_int",
    ("float32", "uint32"): "__float_as_uint",
    ("float64", "int64"): "__double_as_longlong",
    ("int16", "float16"): "__short_as_half",
    ("int32", "float32"): "__int_as_float",
    ("int64", "float64"): "__longlong_as_double",
    ("uint16", "float16"): "__ushort_as_half",
    ("uint32", "float32"): "__uint_as_float",
}


@cache
def use_bit_casts() -> None:
    """Make TVM's CUDA code call CUDA's functions for the bits of scalars, for the rest of this process."""
    tirx.register_intrin_lowering("tirx.reinterpret", target="cuda", f=_lower, level=_LEVEL)


def _lower(call: Any) -> Any:
    (value,) = call.args
    name = _FUNCTIONS.get((dtype_of(value), dtype_of(call)))
    return call if name is None else tirx.call_pure_extern(dtype_of(call), name, value)
