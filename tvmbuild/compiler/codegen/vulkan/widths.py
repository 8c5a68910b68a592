"""The width of integer arithmetic: 32 bits if the bounds allow it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.opcodes import Op
from tvmbuild.compiler.codegen.vulkan.values import INT32, DType, Kind, Value


class Bounds(NamedTuple):
    """The bounds of an integer result, and a number that divides it."""

    low: int
    high: int
    multiple: int = 1


class Widths:
    """Changes of an integer's width, and instructions on integers of the same width.

    A value of 32 bits is within the bounds of int32 if it may be negative, else within the bounds of uint32.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emit = emitter

    def alike(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return both values in the same width."""
        fits = min(a.low, b.low) >= 0 or max(a.high, b.high) <= INT32.bounds[1]
        if a.kind == b.kind and fits:
            return a, b
        return self.widen(a), self.widen(b)

    def widen(self, value: Value) -> Value:
        """Return the value with its bounds, in 64 bits."""
        if value.kind == "u64":
            return value
        if value.constant is not None:
            return replace(value, id=self._emit.assembly.constant("u64", value.constant), kind="u64")
        op = Op.U_CONVERT if value.low >= 0 else Op.S_CONVERT
        return replace(value, id=self._emit.pure(op, "u64", value.id), kind="u64", base=None, offset=0)

    def narrow(self, value: Value) -> Value:
        """Return the last 32 bits of the value."""
        if value.kind == "u32":
            return value
        if value.constant is not None:
            return replace(value, id=self._emit.assembly.constant("u32", value.constant), kind="u32")
        return replace(value, id=self._emit.pure(Op.U_CONVERT, "u32", value.id), kind="u32", base=None, offset=0)

    def wrap(self, value: Value, dtype: DType) -> Value:
        """Convert the value to ``dtype``; a value that is too large keeps its last bits."""
        low, high = dtype.bounds
        if low <= value.low and value.high <= high:
            return value
        if dtype.bits >= 32:
            fitting = self.narrow(value) if dtype.bits == INT32.bits else self.widen(value)
            return Value(fitting.id, fitting.kind, low, high)
        value = self.narrow(value)
        if dtype.kind == "uint":
            return Value(self._emit.pure(Op.BITWISE_AND, "u32", value.id, self._constant(high)), "u32", low, high)
        shift = self._constant(32 - dtype.bits)
        left = self._emit.pure(Op.SHIFT_LEFT_LOGICAL, "u32", value.id, shift)
        return Value(self._emit.pure(Op.SHIFT_RIGHT_ARITHMETIC, "u32", left, shift), "u32", low, high)

    def _constant(self, value: int) -> int:
        return self._emit.assembly.constant("u32", value)

    def _emit_in(self, op: Op, a: Value, b: Value, dtype: DType, bounds: Bounds) -> Value:
        narrow = dtype.bits <= INT32.bits or all(
            self._fits(end, INT32) and self._fits(end, dtype) for end in (bounds.low, bounds.high)
        )
        if not (narrow and a.kind == b.kind == "u32"):
            a, b = self.widen(a), self.widen(b)
        return self._bound(self._emit.pure(op, a.kind, a.id, b.id), a.kind, bounds, dtype)

    def _bound(self, result: int, kind: Kind, bounds: Bounds, dtype: DType) -> Value:
        if self._fits(bounds.low, dtype) and self._fits(bounds.high, dtype):
            return Value(result, kind, *bounds)
        if dtype.bits < INT32.bits:
            return self.wrap(Value(result, kind, bounds.low, bounds.high), dtype)
        return Value(result, kind, *dtype.bounds)

    def _fits(self, value: int, dtype: DType) -> bool:
        return dtype.bounds[0] <= value <= dtype.bounds[1]
