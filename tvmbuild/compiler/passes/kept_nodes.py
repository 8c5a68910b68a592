"""A base for passes that reduce precision: it removes the marks around nodes that stay in float32."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

from tvmbuild.compiler.importing.kept import BEGIN, find_mark


class KeptNodes(PyExprMutator):  # type: ignore[misc]
    """A mutator that replaces marks by their operands, and converts the bindings between them otherwise.

    Values after a kept node stay kept until its marks end.
    """

    def __init__(self, mod: tvm.ir.IRModule) -> None:
        super().__init__(mod)
        self._kept: set[relax.Var] = set()
        """The old variables of nodes that stay in float32."""
        self.has_marks = False
        """True if the module has marks around such nodes."""

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        """Convert a binding by `convert_kept` between marks, and by `convert_other` elsewhere."""
        var, mark = binding.var, find_mark(binding.value)
        if mark is not None:
            self.has_marks = True
            self._kept |= {var} if mark == BEGIN else set()
            value = self.visit_expr(binding.value.args[1])
            emit = self.builder_.emit if isinstance(var, relax.DataflowVar) else self.builder_.emit_output
            self.set_var_remap(var, emit(value))
        elif any(leaf in self._kept for leaf in _list_operands(binding.value)):
            self._kept.add(var)
            self.convert_kept(binding)
        else:
            self.convert_other(binding)

    def convert_kept(self, binding: relax.VarBinding) -> None:
        """Convert a binding between marks; it stays as it is by default."""
        super().visit_var_binding_(binding)

    def convert_other(self, binding: relax.VarBinding) -> None:
        """Convert a binding outside of marks; it stays as it is by default."""
        super().visit_var_binding_(binding)


def leaves(arg: relax.Expr) -> list[relax.Expr]:
    """Return the expressions in a tuple and in its tuples, or the expression itself."""
    return [leaf for field in arg.fields for leaf in leaves(field)] if isinstance(arg, relax.Tuple) else [arg]


def _list_operands(value: relax.Expr) -> list[relax.Expr]:
    """Return the variables that a binding's value reads."""
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    read = value.args if isinstance(value, tvm.ir.Call) else [value]
    return [leaf for each in read for leaf in leaves(each) if isinstance(leaf, relax.Var)]
