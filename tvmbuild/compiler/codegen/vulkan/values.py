"""Values of a kernel: their ids in SPIR-V, and the bounds of integers that are known in advance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

Kind = str
"""The name of a scalar type in `Assembly`: `bool`, `u8` … `u64`, `f16` … `f64`."""


@dataclass(frozen=True)
class DType:
    """A scalar type of TensorIR; `int8` has the kind `int` and 8 bits."""

    kind: str
    """`int`, `uint`, `float` or `bool`."""
    bits: int

    @cached_property
    def register(self) -> Kind:
        """The type in which values are computed; integers of fewer than 32 bits are computed in 32 bits."""
        if self.kind == "bool":
            return "bool"
        if self.kind == "float":
            return f"f{self.bits}"
        return "u64" if self.bits > 32 else "u32"

    @property
    def memory(self) -> Kind:
        """The type in which values are stored in an argument; a bool is a byte."""
        if self.kind == "bool":
            return "u8"
        return f"{'f' if self.kind == 'float' else 'u'}{self.bits}"

    @property
    def scratch(self) -> Kind:
        """The type in which values are stored in a kernel's own memory."""
        return "u32" if self.kind == "bool" else self.register

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest integer of the type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


INT32, INT64, BOOL = DType("int", 32), DType("int", 64), DType("bool", 8)


@dataclass(frozen=True)
class Value:
    """One scalar in a register.

    The bounds of an integer are bounds of its mathematical value; a 64-bit integer is kept in 32 bits if the bounds
    allow it.
    """

    id: int
    kind: Kind
    low: int = 0
    high: int = 0
    multiple: int = 1
    """A number that divides the value; 0 for zero, which every number divides."""
    base: Value | None = None
    """The value that gives this one when ``offset`` is added, or None if the value is not known as a sum."""
    offset: int = 0

    @property
    def constant(self) -> int | None:
        """The integer if the bounds leave only one, else None."""
        return self.low if self.low == self.high and self.kind in ("u32", "u64") else None

    def within(self, low: int, high: int) -> Value:
        """Return the value with additional bounds that the caller knows."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))
