"""Loops that are made several, one for each branch inside."""

from __future__ import annotations

import math

import tvm
import tvm_ffi
from tvm import tirx

PARTITIONED = "pragma_loop_partition_hint"
"""TVM's annotation of such a loop."""
_MOST = (1 << 31) - 1


def narrow_partitioned(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Index with 32 bits in functions with such loops: TVM 0.27 leaves loops of 64 bits whole, branch and all."""
    result = tvm.ir.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    narrow = tirx.transform.ForceNarrowIndexToInt32()
    for variable, function in mod.functions.items():
        if isinstance(function, tirx.PrimFunc) and _is_partitioned(function) and _fits(function):
            narrowed = narrow(tvm.ir.IRModule({variable: function}))
            result.update_func(result.get_global_var(variable.name_hint), narrowed[variable])
    return result


def _is_partitioned(function: tirx.PrimFunc) -> bool:
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, [(tirx.For, found.append)])
    return any(PARTITIONED in loop.annotations for loop in found)


def _fits(function: tirx.PrimFunc) -> bool:
    """Say whether all tensors are of known sizes below 2^31, and none of int64, which would become int32."""
    for buffer in (getattr(each, "buffer", each) for each in function.params):
        extents = list(getattr(buffer, "shape", ["?"]))
        if not all(isinstance(extent, tirx.IntImm) for extent in extents) or str(buffer.dtype) == "int64":
            return False
        if math.prod(int(extent) for extent in extents) > _MOST:
            return False
    return True
