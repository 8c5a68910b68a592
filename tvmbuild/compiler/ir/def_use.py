"""From a variable of the graph to what it is bound to, and to where it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from tvm import relax
from tvm.relax.analysis import all_vars

from tvmbuild.compiler.ir.calls import is_call

Lookup = Callable[[relax.Var], relax.Expr | None]
"""From a variable to what it is bound to: of a `DefUse`, of a builder, of a rewriter."""


def resolve(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Return what a variable is bound to, through variables that are one another; a parameter is itself."""
    while isinstance(expr, relax.Var) and (found := lookup(expr)) is not None:
        expr = found
    return expr


def find_origin(lookup: Lookup, expr: relax.Expr) -> relax.Expr:
    """Return the first of the variables that are one another; the expression itself where it is none."""
    while isinstance(expr, relax.Var) and isinstance(found := lookup(expr), relax.Var):
        expr = found
    return expr


class DefUse:
    """What each variable of a function is bound to, and which bindings use it."""

    # TVM's own: `get_var2val` has the values, but in no order that is promised, and the loop that lists the users has
    # them at hand; `udchain` and `used_vars` list variables by where they lie in memory, another order in each process.
    def __init__(self, function: relax.Function) -> None:
        self.values: dict[relax.Var, relax.Expr] = {}
        """In program order."""
        self.users: dict[relax.Var, list[relax.Var]] = {}
        """Variable → those whose bindings use it, in program order; what nothing uses is missing."""
        self.results: frozenset[relax.Var] = frozenset(all_vars(function.body.body))
        """What the function returns."""
        self.uses: Counter[relax.Var] = Counter(self.results)
        """In how many bindings each variable is used, the result counted as one more."""
        for block in function.body.blocks:
            for binding in block.bindings:
                self.values[binding.var] = binding.value
                used = [*all_vars(binding.value)]
                self.uses.update(used)
                for each in used:
                    self.users.setdefault(each, []).append(binding.var)

    def lookup(self, variable: relax.Var) -> relax.Expr | None:
        """Return what the variable is bound to; None for parameters."""
        return self.values.get(variable)

    def used(self, expr: relax.Expr, uses: int = 1) -> relax.Expr | None:
        """Return what a variable is bound to, through variables that are one another, none of them used more often."""
        while isinstance(expr, relax.Var):
            found = self.values.get(expr) if self.uses[expr] <= uses else None
            if found is None:
                return None
            expr = found
        return expr

    def find(self, expr: relax.Expr, name: str, uses: int = 1) -> relax.Call | None:
        """Return the call of that operator that the variable is bound to and that is used no more often."""
        value = self.used(expr, uses)
        return value if is_call(value, f"relax.{name}") else None

    def is_only_used_by(self, variable: relax.Var, others: Collection[relax.Var]) -> bool:
        """Say whether the bindings of these variables alone use it, and the function does not return it."""
        return variable not in self.results and all(each in others for each in self.users.get(variable, ()))
