"""A pass that gives the large arrays inside of kernels to the static memory plan.

A convolution that pads may copy its whole input, as an array of its own between two loops. TVM's runtime would take
this array from a pool of the calling thread, which never returns it: yolox_nano has 2 MB there beside its workspace of
9 MB. As an argument of the kernel it is a tensor that lives for one call, and shares its place with other tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax.expr import _update_type

from tvmbuild.compiler.ir.calls import is_kernel_call
from tvmbuild.compiler.ir.modules import list_plain_bindings, map_relax_functions, replace_bindings
from tvmbuild.compiler.ir.prim_funcs import change_block, is_scheduled

LEAST_BYTES = 64 << 10
"""The size of the smallest array that is planned: a tensor object takes 0.1 us, and such kernels at least 20 us."""
_MEMORY = "global"
Arrays = Mapping[str, tuple[tvm.ir.GlobalVar, tuple[Any, ...]]]
"""Name of a function → its variable with the new type, and the buffers that become its last parameters."""


def plan_kernel_arrays(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Turn large arrays between the loops of a scheduled kernel into arguments, after calls have explicit tensors.

    Arrays inside of a loop stay where they are, because each thread has its own. A module with branches stays as it is.
    """
    own = [each for each in mod.functions.values() if isinstance(each, relax.Function)]
    if any(list_plain_bindings(each) is None for each in own):
        return mod
    kernels = {each: function for each, function in mod.functions.items() if isinstance(function, tirx.PrimFunc)}
    found = {each: _find_arrays(function) for each, function in kernels.items() if is_scheduled(function)}
    arrays = {each.name_hint: (_make_variable(each.name_hint), taken) for each, taken in found.items() if taken}
    if not arrays:
        return mod
    functions = {each: function for each, function in mod.functions.items() if each.name_hint not in arrays}
    for variable, taken in found.items():
        if taken:
            functions[arrays[variable.name_hint][0]] = _make_parameters(kernels[variable], taken)
    return map_relax_functions(tvm.ir.IRModule(functions, attrs=mod.attrs), lambda each: _pass_arrays(each, arrays))


def _find_arrays(function: tirx.PrimFunc) -> tuple[Any, ...]:
    """Return the large buffers that several statements of the function's root block use."""
    root = getattr(function.body, "block", None)
    if root is None or not isinstance(root.body, tirx.SeqStmt):
        return ()
    users = [_list_variables(each) for each in root.body.seq]
    return tuple(
        each for each in root.alloc_buffers if _is_large(each) and sum(each in variables for variables in users) > 1
    )


def _is_large(buffer: Any) -> bool:
    kind = buffer.ty
    if kind.storage_scope != _MEMORY or kind.strides or not all(isinstance(each, tirx.IntImm) for each in kind.shape):
        return False
    bits: int = tvm_ffi.dtype(str(buffer.dtype)).bits
    return math.prod(int(each) for each in kind.shape) * bits // 8 >= LEAST_BYTES


def _list_variables(statement: Any) -> set[Any]:
    found: set[Any] = set()
    tvm_ffi.structural_walk(statement, [(tvm.ir.Var, found.add)])
    return found


def _make_parameters(function: tirx.PrimFunc, buffers: tuple[Any, ...]) -> tirx.PrimFunc:
    root = function.body.block
    kept = [each for each in root.alloc_buffers if each not in buffers]
    body = function.body
    realized = type(body)(body.iter_values, body.predicate, change_block(root, alloc_buffers=kept), body.span)
    params = [*function.params, *buffers]
    return tirx.PrimFunc(params, realized, function.ret_type, attrs=function.attrs, span=function.span)


def _make_variable(name: str) -> tvm.ir.GlobalVar:
    """Return the variable of a function of any arguments."""
    variable = tvm.ir.GlobalVar(name)
    _update_type(variable, relax.FuncType.opaque_func(purity=False))
    return variable


def _pass_arrays(function: relax.Function, arrays: Arrays) -> relax.Function | None:
    """Allocate a tensor for each array before the calls of the kernels that have any."""
    bindings: list[relax.Binding] = []
    before = list_plain_bindings(function) or []
    for binding in before:
        value = binding.value
        if not is_kernel_call(value) or value.op.name_hint not in arrays:
            bindings.append(binding)
            continue
        kernel, buffers = arrays[value.op.name_hint]
        calls = [_allocate(each) for each in buffers]
        made = [relax.Var(str(each.name), call.ty) for each, call in zip(buffers, calls, strict=True)]
        bindings += [relax.VarBinding(var, call) for var, call in zip(made, calls, strict=True)]
        bindings.append(relax.VarBinding(binding.var, relax.Call(kernel, [*value.args, *made], value.attrs)))
    return replace_bindings(function, bindings, function.body.body) if len(bindings) > len(before) else None


def _allocate(buffer: Any) -> relax.Call:
    shape = relax.ShapeExpr([int(each) for each in buffer.ty.shape])
    return relax.BlockBuilder().normalize(relax.op.builtin.alloc_tensor(shape, str(buffer.dtype), 0))
