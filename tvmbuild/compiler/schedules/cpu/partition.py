"""Loops with branches inside, split into several loops, one for each branch."""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx

from tvmbuild.compiler.ir.expressions import COMPARISONS
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import change_block, list_blocks, list_nodes
from tvmbuild.compiler.schedules.access import collect, uses

PARTITIONED = "pragma_loop_partition_hint"
"""TVM's annotation of a loop with branches that it splits into one loop for each branch."""
_MOST = (1 << 31) - 1


def prepare_partition(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Prepare the functions whose loops TVM splits by branches.

    Their indices become 32-bit, because TVM 0.27 does not split 64-bit loops. Branches that end at places that depend
    on another loop are hidden from it: for these it makes loops that run beyond the end, over other memory.
    """
    narrow = tirx.transform.ForceNarrowIndexToInt32()

    def change(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc | None:
        if not _is_partitioned(function):
            return None
        narrowed = narrow(tvm.ir.IRModule({name: function}))[name] if _fits(function) else function
        return narrowed.with_body(tvm_ffi.structural_map(narrowed.body, (s_tir.SBlock, _hide_in_block)))

    return map_prim_funcs(mod, change)


def _hide_in_block(block: s_tir.SBlock) -> s_tir.SBlock:
    """Return a block whose comparisons either have a bound that is a constant, or one that TVM cannot find."""
    analyzer = sym.Analyzer()
    for each in block.iter_vars:
        analyzer.bind(each.var, each.dom)
    variables = [each.var for each in block.iter_vars]

    def hide(comparison: Any) -> Any:
        if not str(comparison.a.ty.dtype).startswith("int"):
            return comparison
        simple = analyzer.simplify(comparison)
        used = [each for each in variables if uses(simple, each)]
        if not isinstance(simple, COMPARISONS) or (len(used) < 2 and not collect(simple).loads):
            return simple
        return type(simple)(_hide(simple.a), _hide(simple.b))

    if not block.iter_vars:
        return block
    body = tvm_ffi.structural_map(block.body, [(kind, hide) for kind in COMPARISONS])
    return change_block(block, body=body)


def _hide(value: Any) -> Any:
    """Return the same number in a form that TVM does not solve for a variable, and that LLVM makes simple again."""
    if isinstance(value, tirx.IntImm):
        return value
    one = tirx.IntImm(str(value.ty.dtype), 1)
    return tirx.bitwise_xor(tirx.bitwise_xor(value, one), one)


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
