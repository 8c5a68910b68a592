"""The values and the users of the variables of a Relax function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from tvm import relax
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.calls import is_call

Lookup = Callable[[relax.Var], relax.Expr | None]
"""A function that returns the value of a variable, or None for a parameter: `DefUse.lookup`, or the method
``lookup_binding`` of a block builder or rewriter."""


def resolve(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Return the value that a variable is bound to, through other variables if needed.

    A parameter has no value and is returned unchanged; so is any other expression.
    """
    while isinstance(expr, relax.Var) and (found := lookup(expr)) is not None:
        expr = found
    return expr


def find_origin(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Follow bindings of one variable to another, and return the last variable; return other expressions unchanged."""
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
        """A variable → the variables whose bindings use it, in program order. Variables without users have no entry."""
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
        """Return the variable's value, or None for a parameter."""
        return self.values.get(variable)

    def used(self, expr: relax.Expr, uses: int = 1) -> relax.Expr | None:
        """Return the value that a variable is bound to, through other variables if needed.

        Return None if one of these variables has more than ``uses`` uses, or is a parameter.
        """
        while isinstance(expr, relax.Var):
            found = self.values.get(expr) if self.uses[expr] <= uses else None
            if found is None:
                return None
            expr = found
        return expr

    def find(self, expr: relax.Expr, name: str, uses: int = 1) -> relax.Call | None:
        """Return the call of the Relax operator ``name`` that the variable is bound to, through others if needed.

        ``name`` has no ``relax.`` prefix. Return None if the value is another expression, or if one of the variables
        has more than ``uses`` uses.
        """
        value = self.used(expr, uses)
        return value if is_call(value, f"relax.{name}") else None

    def is_only_used_by(self, variable: relax.Var, others: Collection[relax.Var]) -> bool:
        """Return whether only the bindings of ``others`` use ``variable``, and the function does not return it."""
        return variable not in self.results and all(each in others for each in self.users.get(variable, ()))
