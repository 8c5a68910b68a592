"""Emission of instructions without side effects, once for each value (value numbering)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from tvmbuild.compiler.codegen.vulkan.assembly import Assembly
from tvmbuild.compiler.codegen.vulkan.opcodes import Decoration, Glsl, Op
from tvmbuild.compiler.codegen.vulkan.values import INT32, DType, Kind, Value


class Emitter:
    """An emitter with value numbering: equal instructions in the same or an enclosing block give the same value."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self._known: dict[Hashable, int] = {}
        self._constants: dict[tuple[int, Kind], Value] = {}
        self._scopes: list[list[Hashable]] = []

    @contextmanager
    def block(self) -> Iterator[None]:
        """Open a block; when it ends, forget the values that were computed only inside the block."""
        self._scopes.append([])
        try:
            yield
        finally:
            for key in self._scopes.pop():
                del self._known[key]

    def pure(self, op: Op, kind: Kind, *operands: int) -> int:
        """Return the result of an instruction whose result depends only on its operands."""
        return self._number((op, kind, operands), op, kind, operands)

    def exact(self, op: Op, kind: Kind, *operands: int) -> int:
        """Return the result of an arithmetic instruction that drivers must not combine with others (NoContraction)."""
        key = (op, kind, operands, "exact")
        known = key in self._known
        result = self._number(key, op, kind, operands)
        if not known:
            self.assembly.decorate(result, Decoration.NO_CONTRACTION)
        return result

    def glsl(self, instruction: Glsl, kind: Kind, *operands: int) -> int:
        """Return the result of an instruction of GLSL.std.450."""
        return self.pure(Op.EXT_INST, kind, self.assembly.glsl, instruction, *operands)

    def read(self, pointer: int, kind: Kind, lanes: int = 1, *, constant: bool = False) -> int:
        """Return the value loaded from a pointer; ``constant`` means that nothing ever writes to this memory."""
        type_id = self.assembly.vector(kind, lanes)
        if not constant:
            return self.assembly.result(Op.LOAD, type_id, pointer)
        key = ("read", pointer)
        if key not in self._known:
            self._keep(key, self.assembly.result(Op.LOAD, type_id, pointer))
        return self._known[key]

    def point(self, type_id: int, variable: int, *indices: int) -> int:
        """Return a pointer to the part of a variable at these indices."""
        key = ("point", type_id, variable, indices)
        if key not in self._known:
            self._keep(key, self.assembly.result(Op.ACCESS_CHAIN, type_id, variable, *indices))
        return self._known[key]

    def integer(self, value: int, dtype: DType = INT32) -> Value:
        """Return an integer constant, in 32 bits if it fits int32, else in the register type of ``dtype``."""
        kind = "u32" if INT32.bounds[0] <= value <= INT32.bounds[1] else dtype.register
        if (value, kind) not in self._constants:
            constant = self.assembly.constant(kind, value)
            self._constants[value, kind] = Value(constant, kind, value, value, abs(value))
        return self._constants[value, kind]

    def number(self, value: float, kind: Kind) -> Value:
        """Return a floating-point constant."""
        return Value(self.assembly.constant(kind, value), kind)

    def truth(self, value: bool) -> Value:
        """Return a constant condition."""
        return Value(self.assembly.constant("bool", value), "bool", int(value), int(value))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Return ``yes`` if the condition holds, else ``no``; both values must have the same kind."""
        if yes == no:
            return yes
        low, high = min(yes.low, no.low), max(yes.high, no.high)
        return Value(self.pure(Op.SELECT, yes.kind, condition.id, yes.id, no.id), yes.kind, low, high)

    def _number(self, key: Hashable, op: Op, kind: Kind, operands: tuple[int, ...]) -> int:
        if key not in self._known:
            self._keep(key, self.assembly.result(op, self.assembly.scalar(kind), *operands))
        return self._known[key]

    def _keep(self, key: Hashable, result: int) -> None:
        self._known[key] = result
        if self._scopes:
            self._scopes[-1].append(key)
