"""Single-precision arithmetic that drivers must not change, written with Python's operators."""

from __future__ import annotations

from collections.abc import Sequence

from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.opcodes import Glsl, Op


class Exact:
    """A number in single precision; its operators and methods emit instructions."""

    def __init__(self, emitter: Emitter, value: int) -> None:
        self.emitter = emitter
        self.id = value

    def _make(self, value: int) -> Exact:
        return Exact(self.emitter, value)

    def constant(self, value: float) -> Exact:
        """Return a constant number."""
        return self._make(self.emitter.assembly.constant("f32", value))

    def _with(self, op: Op, other: Exact | float) -> Exact:
        right = other if isinstance(other, Exact) else self.constant(other)
        return self._make(self.emitter.exact(op, "f32", self.id, right.id))

    def __add__(self, other: Exact | float) -> Exact:
        return self._with(Op.F_ADD, other)

    def __sub__(self, other: Exact | float) -> Exact:
        return self._with(Op.F_SUB, other)

    def __mul__(self, other: Exact | float) -> Exact:
        return self._with(Op.F_MUL, other)

    def __truediv__(self, other: Exact | float) -> Exact:
        return self._with(Op.F_DIV, other)

    def __neg__(self) -> Exact:
        return self._make(self.emitter.pure(Op.F_NEGATE, "f32", self.id))

    def __lt__(self, other: float) -> int:
        return self.emitter.pure(Op.F_ORD_LESS_THAN, "bool", self.id, self.constant(other).id)

    def __gt__(self, other: float) -> int:
        return self.emitter.pure(Op.F_ORD_GREATER_THAN, "bool", self.id, self.constant(other).id)

    def is_nan(self) -> int:
        """Return the condition that this number is NaN, from its bits: drivers may assume that NaN never occurs."""
        return self.emitter.pure(Op.U_GREATER_THAN, "bool", (self.magnitude()), self.word(0x7F800000))

    def is_infinite(self) -> int:
        """Return the condition that this number is infinite, from its bits."""
        return self.emitter.pure(Op.I_EQUAL, "bool", self.magnitude(), self.word(0x7F800000))

    def is_negative(self) -> int:
        """Return the condition that the sign bit of this number is set; it can be set for zero, too."""
        sign = self.integer(Op.SHIFT_RIGHT_LOGICAL, self.bits(), self.word(31))
        return self.emitter.pure(Op.I_NOT_EQUAL, "bool", sign, self.word(0))

    def is_zero(self) -> int:
        """Return the condition that this number is zero, from its bits."""
        return self.emitter.pure(Op.I_EQUAL, "bool", self.magnitude(), self.word(0))

    def magnitude(self) -> int:
        """Return the bits of this number without the sign, as a uint32."""
        return self.emitter.pure(Op.BITWISE_AND, "u32", self.bits(), self.word(0x7FFFFFFF))

    def bits(self) -> int:
        """Return the bits of this number as a uint32."""
        return self.emitter.pure(Op.BITCAST, "u32", self.id)

    def word(self, value: int) -> int:
        """Return a uint32 constant."""
        return self.emitter.assembly.constant("u32", value)

    def from_bits(self, bits: int) -> Exact:
        """Return the number with these bits."""
        return self._make(self.emitter.pure(Op.BITCAST, "f32", bits))

    def select(self, condition: int, yes: Exact | float) -> Exact:
        """Return ``yes`` if the condition holds, else this number."""
        other = yes if isinstance(yes, Exact) else self.constant(yes)
        return self._make(self.emitter.pure(Op.SELECT, "f32", condition, other.id, self.id))

    def apply(self, instruction: Glsl, *others: Exact | float) -> Exact:
        """Return the result of a GLSL.std.450 instruction on this number and others."""
        ids = [each.id if isinstance(each, Exact) else self.constant(each).id for each in others]
        return self._make(self.emitter.glsl(instruction, "f32", self.id, *ids))

    def split(self) -> tuple[Exact, Exact]:
        """Split the number into the sum of two numbers with at most 12 significant bits each."""
        high = self.from_bits(self.integer(Op.BITWISE_AND, self.bits(), self.word(0xFFFFF000)))
        return high, self - high

    def clamp(self, low: float, high: float) -> Exact:
        """Clamp the number to a range."""
        return self.apply(Glsl.F_MAX, low).apply(Glsl.F_MIN, high)

    def polynomial(self, coefficients: Sequence[float]) -> Exact:
        """Return a polynomial of this number by Horner's scheme; the highest power's coefficient comes first."""
        value = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            value = value * self + coefficient
        return value

    def polynomial_of(self, square: Exact, coefficients: Sequence[float]) -> Exact:
        """Return x + x · y · p(y): x is this number, y its square, and p the polynomial."""
        return square.polynomial(coefficients) * square * self + self

    def with_sign(self, like: Exact) -> Exact:
        """Return this positive number with the sign of ``like``; if ``like`` is NaN, return ``like``."""
        sign = self.integer(Op.BITWISE_AND, like.bits(), self.word(0x80000000))
        return self.from_bits(self.integer(Op.BITWISE_OR, self.bits(), sign)).select(like.is_nan(), like)

    def integer(self, op: Op, a: int, b: int) -> int:
        """Return the result of a 32-bit integer instruction."""
        return self.emitter.pure(op, "u32", a, b)
