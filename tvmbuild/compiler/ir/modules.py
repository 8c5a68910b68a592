"""Functions that return a module with some of its functions replaced; they do not change the given module."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import relax, tirx


def map_prim_funcs(
    mod: tvm.ir.IRModule, change: Callable[[tirx.PrimFunc, str], tirx.PrimFunc | None]
) -> tvm.ir.IRModule:
    """Return the module with each TensorIR function replaced by ``change(function, name)``.

    A function for which ``change`` returns None is kept. If no function changes, the same module object is returned.
    """
    changed = {}
    for variable, function in mod.functions.items():
        new = change(function, variable.name_hint) if isinstance(function, tirx.PrimFunc) else None
        if new is not None and not new.same_as(function):
            changed[variable] = new
    return _with_functions(mod, changed) if changed else mod


def replace_main(mod: tvm.ir.IRModule, function: relax.Function) -> tvm.ir.IRModule:
    """Return the module with ``function`` as its ``main``."""
    return _with_functions(mod, {mod.get_global_var("main"): function})


def keep_if_same(before: tvm.ir.IRModule, after: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return ``after``, or ``before`` itself if both have an equal ``main`` and the same number of functions.

    The comparison is structural: it ignores the names of variables.
    """
    if before.same_as(after) or len(before.functions) != len(after.functions):
        return after
    return before if tvm_ffi.structural_equal(before["main"], after["main"]) else after


def map_relax_functions(
    mod: tvm.ir.IRModule, change: Callable[[relax.Function], relax.Function | None]
) -> tvm.ir.IRModule:
    """Return the module with each Relax function (``main`` and those beside it) replaced by ``change(function)``.

    A function for which ``change`` returns None is kept. If no function changes, the same module object is returned.
    """
    own = {each: function for each, function in mod.functions.items() if isinstance(function, relax.Function)}
    changed = {each: new for each, function in own.items() if (new := change(function)) is not None}
    return relax.transform.Normalize()(_with_functions(mod, changed)) if changed else mod


def list_plain_bindings(function: relax.Function) -> list[relax.VarBinding] | None:
    """Return the bindings of a Relax function, or None if it has branches or shapes known only at run time."""
    bindings = [each for block in function.body.blocks for each in block.bindings]
    is_plain = all(isinstance(each, relax.VarBinding) and not isinstance(each.value, relax.If) for each in bindings)
    return bindings if is_plain else None


def replace_bindings(function: relax.Function, bindings: Sequence[relax.Binding], result: relax.Expr) -> relax.Function:
    """Return the function with these bindings, in one block without dataflow, and this result."""
    body = relax.SeqExpr([relax.BindingBlock(bindings)], result)
    return relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)


def _with_functions(mod: tvm.ir.IRModule, changed: dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]) -> tvm.ir.IRModule:
    result = tvm.ir.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    for variable, function in changed.items():
        result.update_func(result.get_global_var(variable.name_hint), function)
    return result
