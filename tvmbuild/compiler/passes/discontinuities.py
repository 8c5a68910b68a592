"""The search for values that are later rounded, compared or cut to integers, so that a last bit changes the result."""

from __future__ import annotations

from collections.abc import Collection

import tvm
from tvm import relax
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.op_sets import DISCONTINUOUS, EXACT

_BYTES = frozenset({"int8", "uint8"})


def find_rounded(main: relax.Function, *, quantised: bool) -> set[relax.Var]:
    """Return the variables that a discontinuous operator reads, directly or through exact operators only.

    In a ``quantised`` network, roundings to bytes do not count: each layer has many of them, and a tie that is rounded
    the other way is within the network's tolerance.
    """
    found: set[relax.Var] = set()
    for block in reversed(main.body.blocks):
        for binding in reversed(block.bindings):
            if isinstance(binding, relax.VarBinding) and _concerns(binding, found, quantised):
                found.update(all_vars(binding.value))
    return found


def _concerns(binding: relax.VarBinding, found: set[relax.Var], quantised: bool) -> bool:
    value = binding.value
    if not (isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op)):
        return binding.var in found and isinstance(value, (relax.Tuple, relax.TupleGetItem, relax.Var))
    if value.op.name in DISCONTINUOUS or (value.op.name == "relax.round" and not quantised):
        return True
    if value.op.name in {"relax.astype", "relax.call_tir"} and _makes_integers(value, but=_BYTES if quantised else ()):
        return True
    return binding.var in found and value.op.name in EXACT


def _makes_integers(call: relax.Call, but: Collection[str]) -> bool:
    """Return whether a result's dtype is neither floating-point nor one of ``but``: a cast to integers, a TopK."""
    fields = call.ty.fields if isinstance(call.ty, relax.TupleType) else [call.ty]
    types = {str(each.dtype) for each in fields}
    return any("float" not in each for each in types.difference(but))
