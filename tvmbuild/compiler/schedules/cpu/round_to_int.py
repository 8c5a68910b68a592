"""The conversion of floats to integers: first the bounds, then one instruction that rounds and converts.

TVM's own code rounds to a float, applies the bounds, and converts by another instruction, which rounds towards zero.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.target import codegen

from tvmbuild.base.host_cpu import machine_of
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_nodes

_ROUND = "tirx.nearbyint"
"""TVM's operator that rounds to a float; if its dtype is int32, `fast_math` turns it into one instruction."""
_EXACT = 1 << 24
"""The bound below which float32 represents all integers."""
_INTEGERS = frozenset({"uint8", "int8", "int16", "int32"})
_MOST = 255
"""The largest uint8."""


def round_to_integers(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Convert rounded floats to integers by one instruction (`cvtps2dq`) on x86; the results stay the same."""
    triple = str(target.attrs.get("mtriple", "") or codegen.llvm_get_system_triple())
    return map_prim_funcs(mod, _round) if machine_of(triple) == "x86_64" else mod


def _round(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    if not any(str(cast.ty.dtype) in _INTEGERS for cast in list_nodes(function, tirx.Cast)):
        return None
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.Cast, _convert)))


def _convert(cast: tirx.Cast) -> tirx.Cast:
    """Return a cast of a rounded float as one rounding to an integer, with the same bounds and zero point.

    Other casts are returned unchanged.
    """
    dtype = str(cast.ty.dtype)
    if dtype not in _INTEGERS:
        return cast
    high, lowest = _split(cast.value, tirx.Min)
    low, shifted = _split(lowest, tirx.Max)
    shift, rounded = _split(shifted, tirx.Add)
    if getattr(getattr(rounded, "op", None), "name", "") != _ROUND or str(rounded.ty.dtype) != "float32":
        return cast
    (number,) = rounded.args
    shift = shift or 0
    saturates = low is not None and low >= 0 and (dtype, high) == ("uint8", _MOST)
    bounded = number if low is None else tirx.Max(number, _float(low - shift))
    if high is not None and not saturates:
        bounded = tirx.Min(bounded, _float(high - shift))
    integer = tirx.call_intrin("int32", _ROUND, bounded)
    integer = integer + tirx.IntImm("int32", shift) if shift else integer
    if saturates:  # narrowing takes the lesser by itself; a float beyond int32 becomes 2^31 as an unsigned number
        integer = tirx.Min(tirx.Cast("uint32", integer), tirx.IntImm("uint32", _MOST))
    return tirx.Cast(dtype, integer)


def _split(value: Any, kind: type[tirx.Min | tirx.Max | tirx.Add]) -> tuple[int | None, Any]:
    """Return (whole constant, other operand) of an operation of class ``kind``, or (None, ``value``) for others."""
    if not isinstance(value, kind) or not isinstance(value.b, tirx.FloatImm):
        return None, value
    number = float(value.b.value)
    return (int(number), value.a) if number.is_integer() and abs(number) < _EXACT else (None, value)


def _float(number: int) -> tirx.FloatImm:
    return tirx.FloatImm("float32", number)
