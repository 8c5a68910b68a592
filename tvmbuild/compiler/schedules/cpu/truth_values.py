"""Comparisons as numbers: a selection between 1 and 0 in place of a cast.

TVM 0.27 cannot generate code for a cast from a vector of booleans within a `Let`, which the polynomials of exp, tanh,
erf and sigmoid use: its simplifier makes a constant of a vector's type ("IntImm can only take scalar").
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_nodes


def select_truth_values(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace each cast of a boolean to a number by a selection between 1 and 0."""
    return map_prim_funcs(mod, _select)


def _select(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    if not any(map(_is_of_boolean, list_nodes(function, tirx.Cast))):
        return None
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.Cast, _convert)))


def _is_of_boolean(cast: tirx.Cast) -> bool:
    return str(cast.value.ty.dtype) == "bool" != str(cast.ty.dtype)


def _convert(cast: tirx.Cast) -> tvm.ir.PrimExpr:
    if not _is_of_boolean(cast):
        return cast
    dtype = str(cast.ty.dtype)
    return tirx.Select(cast.value, tirx.const(1, dtype), tirx.const(0, dtype))
