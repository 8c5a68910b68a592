"""Integer arithmetic: in 32 bits if the bounds allow it, and unsigned if no operand is negative."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from tvmbuild.compiler.codegen.vulkan.opcodes import PACKED_4X8BIT, Capability, Glsl, Op
from tvmbuild.compiler.codegen.vulkan.values import INT32, INT64, DType, Value
from tvmbuild.compiler.codegen.vulkan.widths import Bounds, Widths

_ANY = Bounds(INT64.bounds[0], 2 * INT64.bounds[1] + 1)
"""Bounds that fit into no type, so that the result gets the bounds of its own type."""
_OF_BYTES = Bounds(-4 * 128 * 127, 4 * 128 * 128)
"""The bounds of a sum of four products of int8."""


class Integers(Widths):
    """Arithmetic on values of one dtype by TensorIR's rules: division rounds to zero, and sums that overflow wrap."""

    def binary(self, name: str, a: Value, b: Value, dtype: DType) -> Value:
        """Return the result of TensorIR's binary node ``name``; raise NotImplementedError for an unknown node."""
        if name not in self._OPERATIONS:
            raise NotImplementedError(f"{name} of {dtype.kind}{dtype.bits}")
        return self._OPERATIONS[name](self, a, b, dtype)

    # ------------------------------------------------------------------- sums and products

    def add(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return a + b; a sum with constants becomes one variable plus one constant."""
        if a.constant is not None:
            a, b = b, a
        if b.constant is not None:
            return self._add_constant(a, b, dtype)
        for one, other in ((a, b), (b, a)):
            if one.base is not None and one.base.kind == a.kind == b.kind:
                return self.add(self.add(one.base, other, dtype), self._emit.integer(one.offset), dtype)
        return self._sum(a, b, dtype)

    def _add_constant(self, a: Value, b: Value, dtype: DType) -> Value:
        base, offset = (a if a.base is None else a.base), a.offset + b.low
        if a.constant is not None and self._fits(a.constant + b.low, dtype):
            return self._emit.integer(a.constant + b.low, dtype)
        if not self._fits(offset, dtype) or base.kind != a.kind:
            return self._sum(a, b, dtype)
        if offset == 0:
            return base
        result = self._sum(base, self._emit.integer(offset, dtype), dtype)
        exact = self._fits(base.low + offset, dtype) and self._fits(base.high + offset, dtype)
        return replace(result, base=base, offset=offset) if exact and result.kind == base.kind else result

    def subtract(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return a - b."""
        if b.constant is not None and self._fits(-b.constant, dtype):
            return self.add(a, self._emit.integer(-b.constant, dtype), dtype)
        if a.id == b.id:
            return self._emit.integer(0)
        return self._emit_in(
            Op.I_SUB, a, b, dtype, Bounds(a.low - b.high, a.high - b.low, math.gcd(a.multiple, b.multiple))
        )

    def multiply(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return a · b."""
        if a.constant is not None:
            a, b = b, a
        if b.constant == 1:
            return a
        if b.constant == 0:
            return self._emit.integer(0)
        if a.constant is not None and b.constant is not None and self._fits(a.constant * b.constant, dtype):
            return self._emit.integer(a.constant * b.constant, dtype)
        if a.base is not None and b.constant is not None and self._fits(a.offset * b.constant, dtype):
            product = self.multiply(a.base, b, dtype)
            return self.add(product, self._emit.integer(a.offset * b.constant, dtype), dtype)
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._emit_in(Op.I_MUL, a, b, dtype, Bounds(min(ends), max(ends), a.multiple * b.multiple))

    def _sum(self, a: Value, b: Value, dtype: DType) -> Value:
        if b.constant is None and b.id < a.id:
            a, b = b, a
        return self._emit_in(
            Op.I_ADD, a, b, dtype, Bounds(a.low + b.low, a.high + b.high, math.gcd(a.multiple, b.multiple))
        )

    def add_byte_products(self, a: Value, b: Value, total: Value) -> Value:
        """Return ``total`` plus the dot product of two words of four int8 each."""
        self._emit.assembly.capabilities |= {Capability.DOT_PRODUCT, Capability.DOT_PRODUCT_INPUT_4X8BIT_PACKED}
        dot = self._emit.pure(Op.S_DOT, "u32", self.narrow(a).id, self.narrow(b).id, PACKED_4X8BIT)
        return self.add(Value(dot, "u32", *_OF_BYTES), total, INT32)

    # ------------------------------------------------------------------- division

    def divide(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return a / b, rounded toward zero."""
        if b.constant == 1:
            return a
        if a.constant is not None and b.constant:
            return self._emit.integer(_divide(a.constant, b.constant), dtype)
        if a.low >= 0 and b.low >= 0:
            if a.high < b.low:
                return self._emit.integer(0)
            multiple = a.multiple // b.constant if b.constant and a.multiple % b.constant == 0 else 1
            bounds = Bounds(a.low // max(b.high, 1), a.high // max(b.low, 1), multiple)
            return self._emit_in(Op.U_DIV, a, b, dtype, bounds)
        largest = max(abs(a.low), abs(a.high))
        bounds = Bounds(-largest, largest)
        if b.low > 0 and b.constant:
            bounds = Bounds(_divide(a.low, b.constant), _divide(a.high, b.constant))
        return self._emit_in(Op.S_DIV, *self.alike(a, b), dtype, bounds)

    def remainder(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return the remainder of ``divide``, which has the sign of a.

        Vulkan does not define SPIR-V's own remainder instruction for negative numbers.
        """
        if a.constant is not None and b.constant:
            return self._emit.integer(a.constant - b.constant * _divide(a.constant, b.constant), dtype)
        if a.low >= 0 and b.low >= 0:
            if a.high < b.low:
                return a
            multiple = math.gcd(a.multiple, b.constant) if b.constant else 1
            return self._emit_in(Op.U_MOD, a, b, dtype, Bounds(0, min(a.high, max(b.high - 1, 0)), multiple))
        largest = max(abs(b.low), abs(b.high)) - 1
        signed = Bounds(min(a.low, 0), max(a.high, 0))
        product = self._emit_in(Op.I_MUL, self.divide(a, b, dtype), b, dtype, signed)
        bounds = Bounds(max(-largest, signed.low), min(largest, signed.high))
        return self._emit_in(Op.I_SUB, a, product, dtype, bounds)

    # ------------------------------------------------------------------- bits

    def shift_right(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return a divided by 2^b, rounded down."""
        op = Op.SHIFT_RIGHT_LOGICAL if a.low >= 0 else Op.SHIFT_RIGHT_ARITHMETIC
        bounds = Bounds(min(a.low, 0), max(a.high, 0))
        if b.constant is not None and 0 <= b.constant < dtype.bits:
            divisor = 1 << b.constant
            multiple = a.multiple // divisor if a.multiple % divisor == 0 else 1
            bounds = Bounds(a.low >> b.constant, a.high >> b.constant, multiple)
            if bounds.low == bounds.high:
                return self._emit.integer(bounds.low, dtype)
        if b.high >= INT32.bits < dtype.bits:  # a register of 32 bits cannot be shifted that far
            a, b = self.widen(a), self.widen(b)
        return self._emit_in(op, a, b, dtype, bounds)

    def shift_left(self, a: Value, b: Value, dtype: DType) -> Value:
        """Return a · 2^b."""
        if b.constant is not None and 0 <= b.constant < dtype.bits - 1:
            return self.multiply(a, self._emit.integer(1 << b.constant, dtype), dtype)
        return self._emit_in(Op.SHIFT_LEFT_LOGICAL, a, b, dtype, _ANY)

    def bitwise(self, op: Op, a: Value, b: Value, dtype: DType) -> Value:
        """Return the bitwise and, or, or exclusive or, as ``op`` says."""
        if a.constant is not None:
            a, b = b, a
        bounds = Bounds(*dtype.bounds)
        if op == Op.BITWISE_AND and b.low >= 0 > a.low:
            bounds = Bounds(0, b.high)
        if a.low >= 0 and b.low >= 0:
            bits = max(a.high, b.high).bit_length()
            bounds = Bounds(0, min(a.high, b.high) if op == Op.BITWISE_AND else (1 << bits) - 1)
            full = b.constant is not None and b.constant & (b.constant + 1) == 0
            if op == Op.BITWISE_AND and full and a.high <= b.high:
                return a
            if op == Op.BITWISE_AND and full:
                return self._emit_in(op, a, b, dtype, bounds._replace(multiple=math.gcd(a.multiple, b.high + 1)))
        return self._emit_in(op, a, b, dtype, bounds)

    def extreme(self, a: Value, b: Value, dtype: DType, *, largest: bool) -> Value:
        """Return the larger of two values if ``largest`` is set, else the smaller."""
        pick = max if largest else min
        bounds = Bounds(pick(a.low, b.low), pick(a.high, b.high))
        for one, other in ((a, b), (b, a)):
            if (one.low >= other.high) if largest else (one.high <= other.low):
                return one
        a, b = self.alike(a, b)
        signed = min(a.low, b.low) < 0
        names = (Glsl.S_MAX, Glsl.U_MAX) if largest else (Glsl.S_MIN, Glsl.U_MIN)
        kind = a.kind
        if kind == "u64":  # in 64 bits, these instructions need capabilities that we do not ask for
            op = (
                (Op.S_LESS_THAN if signed else Op.U_LESS_THAN)
                if not largest
                else (Op.S_GREATER_THAN if signed else Op.U_GREATER_THAN)
            )
            chosen = self._emit.pure(Op.SELECT, kind, self._emit.pure(op, "bool", a.id, b.id), a.id, b.id)
        else:
            chosen = self._emit.glsl(names[0] if signed else names[1], kind, a.id, b.id)
        return self._bound(chosen, kind, bounds, dtype)

    def invert(self, a: Value, dtype: DType) -> Value:
        """Return the value with all bits inverted."""
        return self.subtract(self._emit.integer(-1 if dtype.kind == "int" else dtype.bounds[1], dtype), a, dtype)

    def absolute(self, a: Value, dtype: DType) -> Value:
        """Return the absolute value."""
        if a.low >= 0:
            return a
        return self.extreme(a, self.subtract(self._emit.integer(0), a, dtype), dtype, largest=True)

    _OPERATIONS: ClassVar[Mapping[str, Callable[[Integers, Value, Value, DType], Value]]] = {
        "Add": add,
        "Sub": subtract,
        "Mul": multiply,
        "Div": divide,
        "Mod": remainder,
        "RShift": shift_right,
        "LShift": shift_left,
        "Min": partial(extreme, largest=False),
        "Max": partial(extreme, largest=True),
        "BitwiseAnd": lambda self, a, b, dtype: self.bitwise(Op.BITWISE_AND, a, b, dtype),
        "BitwiseOr": lambda self, a, b, dtype: self.bitwise(Op.BITWISE_OR, a, b, dtype),
        "BitwiseXor": lambda self, a, b, dtype: self.bitwise(Op.BITWISE_XOR, a, b, dtype),
    }


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
