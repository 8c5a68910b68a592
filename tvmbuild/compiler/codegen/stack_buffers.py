"""A pass that puts the private buffers of CPU kernels on the stack.

TVM allocates a CPU's buffers of the storage scope ``local`` from the heap, which takes 25 ns each. Buffers of the scope
``global`` with less than 1,024 bytes are on the stack.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import BufferType

from tvmbuild.compiler.ir.modules import map_prim_funcs

_REGISTERS, _MEMORY = "local", "global"


def use_stack_buffers(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Give the buffers of scope ``local`` the scope ``global``; call this after records are applied."""
    return map_prim_funcs(mod, lambda function, _name: _rewrite(function))


def _rewrite(function: tirx.PrimFunc) -> tirx.PrimFunc:
    made: dict[Any, Any] = {}

    def change_buffer(var: tvm.ir.Var) -> tvm.ir.Var:
        if not isinstance(var.ty, BufferType) or var.ty.storage_scope != _REGISTERS:
            return var
        if var not in made:
            made[var] = _declare(var)
        return made[var]

    def change_pointer(call: tvm.ir.Call) -> tvm.ir.Call:
        """Derive the type of a buffer's pointer again, which names the scope."""
        is_pointer = isinstance(call.ty, tvm.ir.PointerType) and call.ty.storage_scope == _REGISTERS
        return call.args[0].data if is_pointer and tirx.buffer.is_buffer_var(call.args[0]) else call

    body = tvm_ffi.structural_map(function.body, [(tvm.ir.Var, change_buffer), (tvm.ir.Call, change_pointer)])
    return function.with_body(body) if made else function


def _declare(var: tvm.ir.Var) -> tvm.ir.Var:
    """Return a buffer like this one in the scope ``global``."""
    kind = var.ty
    return tirx.decl_buffer(
        kind.shape,
        var.dtype,
        var.name,
        strides=kind.strides,
        elem_offset=kind.elem_offset,
        scope=_MEMORY,
        data_alignment=kind.data_alignment,
        offset_factor=kind.offset_factor,
        layout=kind.layout,
    )
