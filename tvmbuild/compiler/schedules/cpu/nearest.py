"""Floats that become bytes: bounded, then rounded by the instruction that makes integers of them.

TVM rounds to a float, bounds that, and makes an integer of it by another instruction, which would round towards zero.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import codegen

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.compiler.modules import map_prim_funcs
from tvmbuild.compiler.prim_funcs import list_nodes

_ROUND = "tirx.nearbyint"
"""It gives a float in TVM; where an int32 is wanted, `fast_math` makes one instruction of it."""
_EXACT = 1 << 24
"""Below it float32 has all integers."""
_BYTES = frozenset({"uint8", "int8"})
_MOST = 255
"""Of a uint8."""


def round_bytes(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Return the module with fewer instructions for each byte, where the CPU has that one; numbers are the same."""
    triple = str(target.attrs.get("mtriple", "") or codegen.llvm_get_system_triple())
    return map_prim_funcs(mod, _round) if machine_of(triple) == "x86_64" else mod


def _round(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    if not any(str(cast.ty.dtype) in _BYTES for cast in list_nodes(function, tirx.Cast)):
        return None
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.Cast, _convert)))


def _convert(cast: tirx.Cast) -> tirx.Cast:
    """Return the cast of what the bounds and the zero point leave of a rounded number, as integers."""
    if str(cast.ty.dtype) not in _BYTES or not isinstance(cast.value, tirx.Min):
        return cast
    high, lowest = _split(cast.value)
    low, shifted = _split(lowest) if isinstance(lowest, tirx.Max) else (None, lowest)
    zero, rounded = _split(shifted) if isinstance(shifted, tirx.Add) else (0, shifted)
    if high is None or low is None or zero is None or getattr(getattr(rounded, "op", None), "name", "") != _ROUND:
        return cast
    (number,) = rounded.args
    if str(number.ty.dtype) != "float32":
        return cast
    saturates = low >= 0 and (str(cast.ty.dtype), high) == ("uint8", _MOST)
    bounded = tirx.Max(number, _float(low - zero))
    integer = tirx.call_intrin("int32", _ROUND, bounded if saturates else tirx.Min(bounded, _float(high - zero)))
    shifted = integer + tirx.IntImm("int32", zero) if zero else integer
    if saturates:  # what narrows takes the lesser by itself; a float beyond int32 becomes 2^31, as one without sign
        shifted = tirx.Min(tirx.Cast("uint32", shifted), tirx.IntImm("uint32", _MOST))
    return tirx.Cast(cast.ty.dtype, shifted)


def _split(operation: Any) -> tuple[int | None, Any]:
    """Return an operation's whole number and what it is applied to; None where the second operand is none."""
    number = float(operation.b.value) if isinstance(operation.b, tirx.FloatImm) else None
    is_whole = number is not None and number.is_integer() and abs(number) < _EXACT
    return (int(number) if number is not None and is_whole else None), operation.a


def _float(number: int) -> tirx.FloatImm:
    return tirx.FloatImm("float32", number)
