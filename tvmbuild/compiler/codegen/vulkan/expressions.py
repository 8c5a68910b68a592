"""Translation of TensorIR expressions to values of a kernel; a vector is the tuple of its scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from tvm import ir, tirx

from tvmbuild.compiler.codegen.byte_products import DOT
from tvmbuild.compiler.codegen.vulkan.conditions import COMPARISONS, Conditions
from tvmbuild.compiler.codegen.vulkan.conversions import Conversions
from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.floats import Floats
from tvmbuild.compiler.codegen.vulkan.integers import Integers
from tvmbuild.compiler.codegen.vulkan.memory import Access, Memory
from tvmbuild.compiler.codegen.vulkan.tree import BINARY, dtype_of
from tvmbuild.compiler.codegen.vulkan.values import BOOL, INT32, INT64, DType, Value

Vector = tuple[Value, ...]

_OPERATORS = {
    "tirx.bitwise_and": "BitwiseAnd",
    "tirx.bitwise_or": "BitwiseOr",
    "tirx.bitwise_xor": "BitwiseXor",
    "tirx.shift_left": "LShift",
    "tirx.shift_right": "RShift",
}
"""The operators' names for TensorIR's calls that are operators."""
_INTEGERS = ("u32", "u64")
_NAMES = {"abs": "fabs", "round": "nearbyint"}
"""The C names of TensorIR functions that have another name in C.

TensorIR's own lowering rules also rename `round`, but not for vectors.
"""


class Expressions:
    """A translator of expressions, which emits into the current block."""

    def __init__(self, emitter: Emitter) -> None:
        self.emit = emitter
        self.integers = Integers(emitter)
        self.conditions = Conditions(emitter, self.integers)
        self.floats = Floats(emitter)
        self.convert = Conversions(emitter, self.integers)
        self.access = Access(emitter, self.integers, self.convert)
        self.variables: dict[int, Vector] = {}
        """The values of variables, by the variables' addresses."""
        self.pending: dict[int, Any] = {}
        """The expressions of variables that are computed at their uses, by the variables' addresses."""
        self.memories: dict[int, tuple[Memory, int]] = {}
        """The memory of a buffer and the number of scalars that one index stands for, by the buffer's address."""
        self._guard: Value | None = None

    def scalar(self, expression: Any) -> Value:
        """Return the value of an expression with one lane."""
        (value,) = self.vector(expression)
        return value

    def vector(self, expression: Any) -> Vector:
        """Return the values of an expression's lanes; raise NotImplementedError if it has no Vulkan code."""
        handler = self._HANDLERS.get(type(expression))
        if handler is None:
            raise NotImplementedError(f"the expression {type(expression).__name__}: {str(expression)[:100]}")
        return handler(self, expression)

    def runs(self, index: Any, lanes: int) -> list[tuple[Value, int]]:
        """Return the runs of consecutive scalars at an index, as starts and lengths.

        Each lane of the index stands for ``lanes`` scalars.
        """
        step = self.emit.integer(lanes)
        if isinstance(index, tirx.Ramp):
            stride, count = self.scalar(index.stride), dtype_of(index)[1]
            base = self.integers.multiply(self.scalar(index.base), step, INT64)
            if stride.constant == 1:
                return [(base, count * lanes)]
        starts = [self.integers.multiply(each, step, INT64) for each in self.vector(index)]
        return [(each, lanes) for each in starts]

    def guarded(self, start: Value, count: int, memory: Memory) -> Value:
        """Return an index that is in bounds even if the condition around the load does not hold."""
        kept = start.id in memory.registers
        if (
            self._guard is None
            or kept
            or (memory.length is not None and start.low >= 0 and start.high + count <= memory.length)
        ):
            return start
        zero = self.emit.integer(0)
        if start.kind == "u64":
            zero = self.integers.widen(zero)
        multiple = start.multiple
        chosen = self.emit.select(self._guard, start, zero)
        bounded = chosen.within(0, (memory.length or INT32.bounds[1]) - count)
        return Value(bounded.id, bounded.kind, bounded.low, bounded.high, multiple)

    @contextmanager
    def where(self, *conditions: Value) -> Iterator[None]:
        """Guard the loads within the context: their values are used only if the condition holds.

        Several conditions, one for each lane of a vector, have no effect.
        """
        before = self._guard
        if len(conditions) == 1:
            self._guard = conditions[0] if before is None else self.conditions.both(before, conditions[0])
        try:
            yield
        finally:
            self._guard = before

    # ------------------------------------------------------------------- leaves

    def _integer(self, node: Any) -> Vector:
        dtype, _ = dtype_of(node)
        value = int(node.value)
        return (self.emit.truth(bool(value)) if dtype == BOOL else self.emit.integer(value, dtype),)

    def _float(self, node: Any) -> Vector:
        return (self.emit.number(float(node.value), dtype_of(node)[0].register),)

    def _variable(self, node: Any) -> Vector:
        address = hash(node)
        if address not in self.variables:
            return self.vector(self.pending[address])  # value numbering computes it once, at its use
        return self.variables[address]

    def _load(self, node: Any) -> Vector:
        memory, lanes = self.memories[hash(node.source)]
        found: list[Value] = []
        for start, count in self.runs(node.indices[0], lanes):
            found.extend(self.access.load(memory, self.guarded(start, count, memory), count))
        return tuple(found)

    # ------------------------------------------------------------------- operators

    def _binary(self, node: Any) -> Vector:
        name, (dtype, _) = type(node).__name__, dtype_of(node.a)
        return self._combine(name, dtype, self.vector(node.a), self.vector(node.b))

    def _combine(self, name: str, dtype: DType, firsts: Vector, seconds: Vector) -> Vector:
        pairs = zip(firsts, seconds, strict=True)
        if dtype.kind == "float":
            return tuple(self.floats.binary(name, a, b, dtype) for a, b in pairs)
        if dtype == BOOL:
            return tuple(self.conditions.combine(name, a, b) for a, b in pairs)
        if name in COMPARISONS:
            return tuple(self.conditions.compare(name, a, b) for a, b in pairs)
        return tuple(self.integers.binary(name, a, b, dtype) for a, b in pairs)

    def _both(self, node: Any) -> Vector:
        firsts = self.vector(node.a)
        with self.where(*firsts):
            seconds = self.vector(node.b)
        return tuple(self.conditions.both(a, b) for a, b in zip(firsts, seconds, strict=True))

    def _either(self, node: Any) -> Vector:
        firsts = self.vector(node.a)
        with self.where(*map(self.conditions.negate, firsts)):
            seconds = self.vector(node.b)
        return self._combine("Or", BOOL, firsts, seconds)

    def _negation(self, node: Any) -> Vector:
        return tuple(self.conditions.negate(each) for each in self.vector(node.a))

    def _inversion(self, node: Any) -> Vector:
        dtype, _ = dtype_of(node)
        return tuple(self.integers.invert(each, dtype) for each in self.vector(node.a))

    def _cast(self, node: Any) -> Vector:
        source, to = dtype_of(node.value)[0], dtype_of(node)[0]
        return tuple(self.convert.cast(each, source, to) for each in self.vector(node.value))

    # ------------------------------------------------------------------- vectors and choices

    def _ramp(self, node: Any) -> Vector:
        dtype, lanes = dtype_of(node)
        base, stride = self.scalar(node.base), self.scalar(node.stride)
        steps = [self.integers.multiply(stride, self.emit.integer(lane), dtype) for lane in range(lanes)]
        return tuple(self.integers.add(base, step, dtype) for step in steps)

    def _broadcast(self, node: Any) -> Vector:
        value = self.vector(node.value)
        return value * (dtype_of(node)[1] // len(value))

    def _shuffle(self, node: Any) -> Vector:
        whole = [value for vector in node.vectors for value in self.vector(vector)]
        return tuple(whole[int(index)] for index in node.indices)

    def _let(self, node: Any) -> Vector:
        self.variables[hash(node.var)] = self.vector(node.value)
        return self.vector(node.body)

    def _select(self, node: Any) -> Vector:
        return self._choose(node.condition, node.true_value, node.false_value)

    def _choose(self, condition: Any, yes: Any, no: Any) -> Vector:
        """Select one of two values; both are computed, and the unselected one loads only within its buffers."""
        conditions = self.vector(condition)
        if all(each.low == each.high for each in conditions) and len({each.low for each in conditions}) == 1:
            return self.vector(yes if conditions[0].low else no)
        with self.where(*conditions):
            first = self.vector(yes)
        with self.where(*map(self.conditions.negate, conditions)):
            second = self.vector(no)
        conditions *= len(first) // len(conditions)
        return tuple(
            self.emit.select(each, *(self.integers.alike(a, b) if a.kind in _INTEGERS else (a, b)))
            for each, a, b in zip(conditions, first, second, strict=True)
        )

    # ------------------------------------------------------------------- calls

    def _call(self, node: Any) -> Vector:
        name = str(node.op.name) if isinstance(node.op, ir.Op) else str(node.op)
        arguments = list(node.args)
        if name in ("prim.if_then_else", "tirx.if_then_else"):
            return self._choose(*arguments)
        if name in ("tirx.call_pure_extern", "tirx.call_extern"):
            return self._function(str(arguments[0].value), node, arguments[1:])
        if name in _OPERATORS:
            dtype, _ = dtype_of(node)
            return self._combine(_OPERATORS[name], dtype, *(self.vector(each) for each in arguments))
        if name == "tirx.reinterpret":
            source, to = dtype_of(arguments[0])[0], dtype_of(node)[0]
            return tuple(self.convert.reinterpret(each, source, to) for each in self.vector(arguments[0]))
        if name in ("tirx.likely", "tirx.ret"):
            return self.vector(arguments[0])
        plain = name.rpartition(".")[2]
        return self._function(_NAMES.get(plain, plain), node, arguments)

    def _function(self, name: str, node: Any, arguments: list[Any]) -> Vector:
        dtype, result = dtype_of(arguments[0])[0], dtype_of(node)[0]
        lanes = zip(*(self.vector(each) for each in arguments), strict=True)
        if dtype.kind == "float":
            return tuple(self.floats.call(name, each, dtype, result) for each in lanes)
        if name == _NAMES["abs"]:
            return tuple(self.integers.absolute(each, dtype) for (each,) in lanes)
        if f"tirx.{name}" == DOT:
            return tuple(self.integers.add_byte_products(*each) for each in lanes)
        raise NotImplementedError(f"the function {name} of {dtype.kind}{dtype.bits}")

    _HANDLERS: ClassVar[Mapping[type, Callable[[Expressions, Any], Vector]]] = {
        tirx.IntImm: _integer,
        tirx.FloatImm: _float,
        tirx.Var: _variable,
        ir.TensorLoad: _load,
        **dict.fromkeys(BINARY, _binary),
        tirx.And: _both,
        tirx.Or: _either,
        tirx.Not: _negation,
        tirx.BitwiseNot: _inversion,
        tirx.Cast: _cast,
        tirx.Ramp: _ramp,
        tirx.Broadcast: _broadcast,
        tirx.Shuffle: _shuffle,
        tirx.Let: _let,
        tirx.Select: _select,
        ir.Call: _call,
    }
