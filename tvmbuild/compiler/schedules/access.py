"""The loads, branches and calls in an expression of a block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import sym, tirx

from tvmbuild.compiler.codegen.byte_products import DOT
from tvmbuild.compiler.ir.expressions import COMPARISONS, substitute


@dataclass(frozen=True)
class Access:
    """One load or the store of a block."""

    buffer: Any
    indices: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the buffer's shape."""
        return tuple(int(extent) for extent in self.buffer.shape)

    @property
    def bits(self) -> int:
        """Return the width of an element in memory, in bits."""
        return max(8, int(tvm.DataType(str(self.buffer.dtype)).bits))

    @property
    def is_bool(self) -> bool:
        """Return whether the buffer's elements are Booleans, which TVM does not keep in vectors."""
        return str(self.buffer.dtype) == "bool"

    @property
    def elements(self) -> int:
        """Return the buffer's size in elements."""
        return math.prod(self.shape)

    def stride(self, var: Any) -> int | None:
        """Return the access's stride along ``var``, in elements, or None if it varies."""
        total, step = 0, 1
        for index, extent in zip(reversed(self.indices), reversed(self.shape), strict=True):
            coefficients = sym.detect_linear_equation(index, [var])
            if not coefficients or not isinstance(coefficients[0], tirx.IntImm):
                return None
            total += int(coefficients[0]) * step
            step *= extent
        return total

    def stride_within(self, var: Any, piece: int) -> int | None:
        """Return `stride` within every ``piece`` steps of ``var``, counted from 0, or None if it varies within one."""
        dtype = str(var.ty.dtype)
        number, step = (tirx.Var(name, dtype) for name in ("number", "step"))
        analyzer = sym.Analyzer()
        analyzer.bind(step, tvm.ir.Range(tirx.IntImm(dtype, 0), tirx.IntImm(dtype, piece)))
        place = {var: number * tirx.IntImm(dtype, piece) + step}
        indices = (analyzer.simplify(substitute(index, place)) for index in self.indices)
        return Access(self.buffer, tuple(indices)).stride(step)


@dataclass(frozen=True)
class Found:
    """The loads, branch conditions and function calls of an expression."""

    loads: tuple[Access, ...]
    conditions: tuple[Any, ...]
    calls: int


_FREE = frozenset({"prim.likely", "tirx.reinterpret", "tirx.nearbyint", DOT})
"""The operators whose calls cost at most one instruction; they are not counted."""


def collect(expr: Any) -> Found:
    """Collect the loads, branch conditions and function calls of the expression."""
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
    """Return whether the expression mentions the variable."""
    found: list[Any] = []

    def on_var(other: Any) -> None:
        if other.same_as(var):
            found.append(other)

    tvm_ffi.structural_walk(expr, (tvm.ir.Var, on_var), order="post")
    return bool(found)


def list_comparisons(condition: Any) -> list[Any]:
    """Return the comparisons that a condition is made of."""
    found: list[Any] = []
    tvm_ffi.structural_walk(condition, [(kind, found.append) for kind in COMPARISONS], order="post")
    return found


def list_moduli(expr: Any, var: Any) -> list[int]:
    """Return the constant divisors of all remainders in the expression that depend on the variable."""
    return _list_divisors(expr, var, tirx.FloorMod)


def list_divisors(expr: Any, var: Any) -> list[int]:
    """Return the constant divisors of all quotients and remainders in the expression that depend on the variable."""
    return _list_divisors(expr, var, tirx.FloorMod, tirx.FloorDiv)


def _list_divisors(expr: Any, var: Any, *kinds: Any) -> list[int]:
    found: list[int] = []

    def on_division(division: Any) -> None:
        if isinstance(division.b, tirx.IntImm) and uses(division.a, var):
            found.append(int(division.b))

    tvm_ffi.structural_walk(expr, [(kind, on_division) for kind in kinds], order="post")
    return found


def find_bound(condition: Any, var: Any) -> int | None:
    """Return the variable's value at which a comparison with a constant changes. None: another condition."""
    if not isinstance(condition, (tirx.LE, tirx.LT, tirx.GE, tirx.GT)):
        return None
    left, right = condition.a, condition.b
    is_after = isinstance(condition, (tirx.LE, tirx.GT))
    if isinstance(right, tirx.IntImm) and left.same_as(var):
        return int(right) + is_after
    if isinstance(left, tirx.IntImm) and right.same_as(var):
        return int(left) + (not is_after)
    return None
