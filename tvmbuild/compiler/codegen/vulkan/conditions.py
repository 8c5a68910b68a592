"""Conditions: comparisons of integers, and logical operations on conditions."""

from __future__ import annotations

from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.integers import Integers
from tvmbuild.compiler.codegen.vulkan.opcodes import Op
from tvmbuild.compiler.codegen.vulkan.values import Value

COMPARISONS = {
    "EQ": (Op.I_EQUAL, Op.I_EQUAL),
    "NE": (Op.I_NOT_EQUAL, Op.I_NOT_EQUAL),
    "LT": (Op.S_LESS_THAN, Op.U_LESS_THAN),
    "LE": (Op.S_LESS_EQUAL, Op.U_LESS_EQUAL),
    "GT": (Op.S_GREATER_THAN, Op.U_GREATER_THAN),
    "GE": (Op.S_GREATER_EQUAL, Op.U_GREATER_EQUAL),
}
"""The signed and the unsigned instruction for each comparison, by the name of TensorIR's node."""
_LOGIC = {
    "Add": Op.LOGICAL_OR,
    "Mul": Op.LOGICAL_AND,
    "Min": Op.LOGICAL_AND,
    "Max": Op.LOGICAL_OR,
    "EQ": Op.LOGICAL_EQUAL,
    "NE": Op.LOGICAL_NOT_EQUAL,
    "Or": Op.LOGICAL_OR,
    "BitwiseAnd": Op.LOGICAL_AND,
    "BitwiseOr": Op.LOGICAL_OR,
    "BitwiseXor": Op.LOGICAL_NOT_EQUAL,
}
"""The instruction that combines two conditions, by the name of TensorIR's node."""


class Conditions:
    """A builder of conditions from values."""

    def __init__(self, emitter: Emitter, integers: Integers) -> None:
        self._emit = emitter
        self._integers = integers

    def compare(self, name: str, a: Value, b: Value) -> Value:
        """Compare two integers; the result is a constant if the bounds decide it."""
        known = _decide(name, a, b)
        if known is not None:
            return self._emit.truth(known)
        signed = min(a.low, b.low) < 0
        a, b = self._integers.alike(a, b)
        return self._make(COMPARISONS[name][0 if signed else 1], a.id, b.id)

    def combine(self, name: str, a: Value, b: Value) -> Value:
        """Combine two conditions as TensorIR's node ``name`` does; raise NotImplementedError for an unknown node."""
        if name not in _LOGIC:
            raise NotImplementedError(f"{name} of conditions")
        return self._make(_LOGIC[name], a.id, b.id)

    def both(self, a: Value, b: Value) -> Value:
        """Return the condition that both conditions hold."""
        for one, other in ((a, b), (b, a)):
            if one.low == one.high:
                return other if one.low else one
        return self._make(Op.LOGICAL_AND, a.id, b.id)

    def negate(self, value: Value) -> Value:
        """Return the negation of a condition."""
        return Value(self._emit.pure(Op.LOGICAL_NOT, "bool", value.id), "bool", 1 - value.high, 1 - value.low)

    def _make(self, op: Op, a: int, b: int) -> Value:
        return Value(self._emit.pure(op, "bool", a, b), "bool", 0, 1)


def _decide(name: str, a: Value, b: Value) -> bool | None:
    """Return the result of an integer comparison if the bounds of the operands decide it, else None."""
    if name in ("GT", "GE"):
        return _decide({"GT": "LT", "GE": "LE"}[name], b, a)
    if name == "LT":
        return True if a.high < b.low else False if a.low >= b.high else None
    if name == "LE":
        return True if a.high <= b.low else False if a.low > b.high else None
    if a.id == b.id and a.kind == b.kind:
        return name == "EQ"
    apart = a.high < b.low or b.high < a.low
    return name == "NE" if apart else None
