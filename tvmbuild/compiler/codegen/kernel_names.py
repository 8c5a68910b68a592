"""Short kernel names for the runtimes of GPUs: TVM names a function after all operators that are fused into it."""

from __future__ import annotations

import hashlib

import tvm
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

LONGEST = 220
"""The largest length of a name, in bytes. The runtimes' limit is 255; TVM appends a suffix for each kernel."""
_DIGITS = 16


def shorten_names(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Shorten the names of functions that are longer than ``LONGEST``: keep the beginning and append a digest."""
    long = {
        variable: function
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and len(variable.name_hint) > LONGEST
    }
    if not long:
        return mod
    renamer = _Renamer(mod)
    for variable, function in sorted(long.items(), key=lambda item: str(item[0].name_hint)):
        name = _shorten(str(variable.name_hint))
        new = renamer.builder_.add_func(function.with_attr("global_symbol", name), name)
        renamer.renamed[variable] = new
    own = [each for each, function in mod.functions.items() if isinstance(function, relax.Function)]
    changed = {each.name_hint: renamer.visit_expr(mod[each]) for each in own}
    made = renamer.builder_.get()
    for name, function in changed.items():
        made.update_func(made.get_global_var(name), function)
    return tvm.ir.IRModule({each: made[each] for each in made.functions if each not in long}, attrs=mod.attrs)


def _shorten(name: str) -> str:
    return f"{name[: LONGEST - _DIGITS - 1]}_{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


@mutator
class _Renamer(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule) -> None:
        super().__init__(mod)
        self.renamed: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {}

    def visit_global_var_(self, variable: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        return self.renamed.get(variable, variable)
