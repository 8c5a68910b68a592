"""One name for all Relax variables, so that the block names derived from them are the same in equal functions."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.modules import replace_main

_ANY_NAME = "lv"


def canonicalize_var_names(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Give every Relax variable of ``main`` the same name.

    LegalizeOps names blocks after variables (``lv235_red``), and a trace finds blocks by name. With different names, a
    trace from one model would fail on the equal Task of another model.
    """
    bindings = (binding for block in mod["main"].body.blocks for binding in block.bindings)
    if all(binding.var.name == _ANY_NAME for binding in bindings):
        return mod
    return replace_main(mod, _Renamer(mod).visit_expr(mod["main"]))


@mutator
class _Renamer(PyExprMutator):  # type: ignore[misc]
    def visit_var_def_(self, var: relax.Var) -> relax.Var:
        return self._rename(var, relax.Var(_ANY_NAME, var.ty))

    def visit_dataflow_var_def_(self, var: relax.Var) -> relax.Var:
        return self._rename(var, relax.DataflowVar(_ANY_NAME, var.ty))

    def _rename(self, var: relax.Var, new: relax.Var) -> relax.Var:
        self.set_var_remap(var, new)
        return new
