"""The values and the users of the variables of a Relax function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from tvm import relax
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.calls import is_call

Lookup = Callable[[relax.Var], relax.Expr | None]
"""A lookup from a variable to its value, as a `DefUse`, a block builder or a rewriter offers it."""


def resolve(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Follow variable-to-variable bindings to the value; a parameter is returned as it is."""
    while isinstance(expr, relax.Var) and (found := lookup(expr)) is not None:
        expr = found
    return expr


def find_origin(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Follow variable-to-variable bindings to the original variable; other expressions are returned unchanged."""
    while isinstance(expr, relax.Var) and isinstance(found := lookup(expr), relax.Var):
        expr = found
    return expr


class DefUse:
    """The value of each variable of a function, and the bindings that use it."""

    # TVM's own analyses do not fit: `get_var2val` has the values, but promises no order, and the loop that lists the
    # users has the values at hand; `udchain` and `used_vars` list variables by their memory address, in another order
    # in each process.
    def __init__(self, function: relax.Function) -> None:
        self.values: dict[relax.Var, relax.Expr] = {}
        """The value of each variable, in program order."""
        self.users: dict[relax.Var, list[relax.Var]] = {}
        """The variables whose bindings use a variable, in program order; a variable without users is missing."""
        self.results: frozenset[relax.Var] = frozenset(all_vars(function.body.body))
        """The variables that the function returns."""
        self.uses: Counter[relax.Var] = Counter(self.results)
        """The number of bindings that use each variable; the function's result counts as one more."""
        for block in function.body.blocks:
            for binding in block.bindings:
                self.values[binding.var] = binding.value
                used = [*all_vars(binding.value)]
                self.uses.update(used)
                for each in used:
                    self.users.setdefault(each, []).append(binding.var)

    def lookup(self, variable: relax.Var) -> relax.Expr | None:
        """Return the variable's value; None for parameters."""
        return self.values.get(variable)

    def used(self, expr: relax.Expr, uses: int = 1) -> relax.Expr | None:
        """Follow variable-to-variable bindings to the value.

        None if a variable on the way has more uses than ``uses``.
        """
        while isinstance(expr, relax.Var):
            found = self.values.get(expr) if self.uses[expr] <= uses else None
            if found is None:
                return None
            expr = found
        return expr

    def find(self, expr: relax.Expr, name: str, uses: int = 1) -> relax.Call | None:
        """Return the call of that operator that the variable is bound to; else None.

        None, too, if a variable on the way has more uses than ``uses``.
        """
        value = self.used(expr, uses)
        return value if is_call(value, f"relax.{name}") else None

    def is_only_used_by(self, variable: relax.Var, others: Collection[relax.Var]) -> bool:
        """Return whether only the bindings of these variables use it, and the function does not return it."""
        return variable not in self.results and all(each in others for each in self.users.get(variable, ()))
