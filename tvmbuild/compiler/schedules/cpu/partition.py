"""Loops with branches inside, split into several loops, one for each branch."""

from __future__ import annotations

import math

import tvm
from tvm import tirx

from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_blocks, list_nodes

PARTITIONED = "pragma_loop_partition_hint"
"""TVM's annotation of a loop with branches that it splits into one loop for each branch."""
_MOST = (1 << 31) - 1


def narrow_partitioned(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Use 32-bit indices in functions whose loops TVM splits by branches: TVM 0.27 does not split 64-bit loops."""
    narrow = tirx.transform.ForceNarrowIndexToInt32()

    def change(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc | None:
        if not _is_partitioned(function) or not _fits(function):
            return None
        return narrow(tvm.ir.IRModule({name: function}))[name]

    return map_prim_funcs(mod, change)


def _is_partitioned(function: tirx.PrimFunc) -> bool:
    return any(PARTITIONED in loop.annotations for loop in list_nodes(function, tirx.For))


def _fits(function: tirx.PrimFunc) -> bool:
    """Return whether all tensors have known sizes below 2^31, and only indices are int64.

    Other int64 numbers would become int32 with the indices.
    """
    buffers = [getattr(each, "buffer", each) for each in function.params]
    buffers += [buffer for block in list_blocks(function) for buffer in block.alloc_buffers]
    if any(str(buffer.dtype) == "int64" for buffer in buffers):
        return False
    if any("int64" in {str(cast.ty.dtype), str(cast.value.ty.dtype)} for cast in list_nodes(function, tirx.Cast)):
        return False
    extents = [list(buffer.shape) for buffer in buffers]
    return all(
        all(isinstance(extent, tirx.IntImm) for extent in each) and math.prod(int(extent) for extent in each) <= _MOST
        for each in extents
    )
