"""Conversions: casts, reinterpreted bits, and the types of numbers in memory."""

from __future__ import annotations

from dataclasses import replace

from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.integers import Integers
from tvmbuild.compiler.codegen.vulkan.opcodes import Op
from tvmbuild.compiler.codegen.vulkan.values import BOOL, INT32, DType, Kind, Value


class Conversions:
    """An emitter of conversions of single scalars."""

    def __init__(self, emitter: Emitter, integers: Integers) -> None:
        self._emit = emitter
        self._integers = integers

    def cast(self, value: Value, source: DType, to: DType) -> Value:
        """Cast a value of type ``source`` to type ``to``, as C does."""
        if source == to:
            return value
        if to == BOOL:
            return self._is_not_zero(value, source)
        if source == BOOL:
            return self._choose(value, to)
        if to.kind == "float":
            return self._to_float(value, source, to)
        return self._truncate(value, to) if source.kind == "float" else self._integers.wrap(value, to)

    def _to_float(self, value: Value, source: DType, to: DType) -> Value:
        if source.kind == "float":
            return self.resize(value, to.register)
        op = Op.CONVERT_U_TO_F if value.low >= 0 else Op.CONVERT_S_TO_F
        return Value(self._emit.pure(op, to.register, value.id), to.register)

    def _truncate(self, value: Value, to: DType) -> Value:
        """Round a floating-point number toward zero, in a register's width, and keep the last bits that fit ``to``."""
        wide = to if to.bits >= INT32.bits else INT32
        op = Op.CONVERT_F_TO_U if wide.kind == "uint" else Op.CONVERT_F_TO_S
        number = Value(self._emit.pure(op, to.register, value.id), to.register, *wide.bounds)
        return self._integers.wrap(number, to)

    def resize(self, value: Value, kind: Kind) -> Value:
        """Convert a floating-point number to another precision."""
        return value if value.kind == kind else Value(self._emit.pure(Op.F_CONVERT, kind, value.id), kind)

    def reinterpret(self, value: Value, source: DType, to: DType) -> Value:
        """Reinterpret the value's bits as another type of the same width.

        Raises NotImplementedError for conversions between integers and floating-point numbers of other than 32 bits.
        """
        if source.kind == to.kind != "float" or source == to:
            return self._integers.wrap(value, to)
        if to.kind == "float" and to.bits == INT32.bits:
            return Value(self._emit.pure(Op.BITCAST, "f32", self._integers.narrow(value).id), "f32")
        if source.kind == "float" and source.bits == INT32.bits:
            return Value(self._emit.pure(Op.BITCAST, "u32", value.id), "u32", *to.bounds)
        if source.kind != "float" and to.kind != "float":
            return self._integers.wrap(value, to)
        raise NotImplementedError(f"the bits of {source.kind}{source.bits} as {to.kind}{to.bits}")

    def from_memory(self, loaded: int, dtype: DType, stored: Kind) -> Value:
        """Convert a loaded scalar of a buffer of ``dtype``, whose elements are ``stored`` in memory, to a value."""
        if dtype.kind == "float":
            return self.resize(Value(loaded, stored), dtype.register)
        if stored in ("u8", "u16"):  # no other instruction takes these types
            loaded = self._emit.pure(Op.S_CONVERT if dtype.kind == "int" else Op.U_CONVERT, "u32", loaded)
        if dtype == BOOL:
            zero = self._emit.assembly.constant("u32", 0)
            return Value(self._emit.pure(Op.I_NOT_EQUAL, "bool", loaded, zero), "bool", 0, 1)
        return Value(loaded, dtype.register, *dtype.bounds)

    def to_memory(self, value: Value, dtype: DType, stored: Kind) -> int:
        """Convert a value of ``dtype`` to ``stored``, the type that the buffer's elements have in memory."""
        if dtype == BOOL:
            value = self._choose(value, INT32)
        elif dtype.kind == "float":
            return self.resize(value, stored).id
        elif stored == "u64":
            return self._integers.widen(value).id
        number = self._integers.narrow(value)
        if stored == "u32":
            return number.id
        return self._emit.pure(Op.U_CONVERT, stored, number.id)

    def _is_not_zero(self, value: Value, source: DType) -> Value:
        op = Op.F_UNORD_NOT_EQUAL if source.kind == "float" else Op.I_NOT_EQUAL
        return Value(self._emit.pure(op, "bool", value.id, self._emit.assembly.constant(value.kind, 0)), "bool", 0, 1)

    def _choose(self, value: Value, to: DType) -> Value:
        if to.kind == "float":
            return self._emit.select(value, self._emit.number(1.0, to.register), self._emit.number(0.0, to.register))
        return replace(self._emit.select(value, self._emit.integer(1), self._emit.integer(0)), low=0, high=1)
