"""What an expression of a block loads, branches on and calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx

from tvmbuild.compiler.codegen.byte_products import DOT


@dataclass(frozen=True)
class Access:
    """One load or the store of a block."""

    buffer: Any
    indices: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the buffer's."""
        return tuple(int(extent) for extent in self.buffer.shape)

    @property
    def bits(self) -> int:
        """Return an element's width in memory."""
        return max(8, int(tvm.DataType(str(self.buffer.dtype)).bits))

    @property
    def is_bool(self) -> bool:
        """Say whether it is of truth values, which TVM does not keep in vectors."""
        return str(self.buffer.dtype) == "bool"

    @property
    def elements(self) -> int:
        """Return the buffer's size in elements."""
        return math.prod(self.shape)

    def stride(self, var: Any) -> int | None:
        """Return how many elements further the access is when the variable is one more; None when that varies."""
        total, step = 0, 1
        for index, extent in zip(reversed(self.indices), reversed(self.shape), strict=True):
            coefficients = sym.detect_linear_equation(index, [var])
            if not coefficients or not isinstance(coefficients[0], tirx.IntImm):
                return None
            total += int(coefficients[0]) * step
            step *= extent
        return total


@dataclass(frozen=True)
class Found:
    """The loads, branch conditions and function calls of an expression."""

    loads: tuple[Access, ...]
    conditions: tuple[Any, ...]
    calls: int


_FREE = frozenset({"prim.likely", "tirx.reinterpret", "tirx.nearbyint", DOT})
"""No more than an instruction."""


def collect(expr: Any) -> Found:
    """Walk the expression."""
    loads: list[Access] = []
    conditions: list[Any] = []
    calls: list[str] = []

    def on_load(load: Any) -> None:
        loads.append(Access(load.source, tuple(load.indices)))

    def on_call(call: Any) -> None:
        name = str(getattr(call.op, "name", ""))
        if name == "prim.if_then_else":
            conditions.append(call.args[0])
        elif name not in _FREE:
            calls.append(name)

    def on_select(select: Any) -> None:
        conditions.append(select.condition)

    tvm_ffi.structural_walk(
        expr,
        [(tvm.ir.TensorLoad, on_load), (tvm.ir.Call, on_call), (tirx.Select, on_select)],
        order="post",
    )
    return Found(tuple(loads), tuple(conditions), len(calls))


def uses(expr: Any, var: Any) -> bool:
    """Say whether the expression mentions the variable."""
    found: list[Any] = []

    def on_var(other: Any) -> None:
        if other.same_as(var):
            found.append(other)

    tvm_ffi.structural_walk(expr, (tvm.ir.Var, on_var), order="post")
    return bool(found)


def list_moduli(expr: Any, var: Any) -> list[int]:
    """Return by what numbers something of the variable is divided for its remainder."""
    found: list[int] = []

    def on_remainder(remainder: Any) -> None:
        if isinstance(remainder.b, tirx.IntImm) and uses(remainder.a, var):
            found.append(int(remainder.b))

    tvm_ffi.structural_walk(expr, (tirx.FloorMod, on_remainder), order="post")
    return found
