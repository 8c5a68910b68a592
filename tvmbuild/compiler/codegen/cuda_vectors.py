"""Vectors that TVM's CUDA code cannot express, written in other ways.

TVM declares the condition of a selection in the type of the values, `float4 c = make_ushort4(…)`, unless it is a
comparison of vectors; NVRTC refuses that. A mask that the last axis does not have becomes such a condition.
Neither can TVM repeat a byte that is not constant.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.codegen.polynomials import dtype_of
from tvmbuild.compiler.ir.expressions import COMPARISONS

_BYTES = ("int8", "uint8")


def rewrite_vectors(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return the function with comparisons as conditions of vectors, and bytes repeated as int32."""
    body = tvm_ffi.structural_map(function.body, [(tirx.Select, _compare), (tirx.Broadcast, _widen)])
    return function.with_body(body)


def _compare(select: tirx.Select) -> Any:
    lanes = tvm.DataType(dtype_of(select.condition)).lanes
    if lanes == 1 or isinstance(select.condition, COMPARISONS):
        return select
    none = tirx.Broadcast(tirx.const(0, "int32"), lanes)
    condition = tirx.NE(select.condition.astype(f"int32x{lanes}"), none)
    return tirx.Select(condition, select.true_value, select.false_value)


def _widen(repeated: tirx.Broadcast) -> Any:
    if dtype_of(repeated.value) not in _BYTES or isinstance(repeated.value, tirx.IntImm):
        return repeated
    # Not by `astype`, which would repeat the cast.
    return tirx.Cast(dtype_of(repeated), tirx.Broadcast(repeated.value.astype("int32"), repeated.lanes))
