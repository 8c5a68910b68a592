"""The buffers of a kernel: arguments, shared memory of the workgroup, and memory of one thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvmbuild.compiler.codegen.vulkan.conversions import Conversions
from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.integers import Integers
from tvmbuild.compiler.codegen.vulkan.opcodes import Capability, Decoration, Op, Storage
from tvmbuild.compiler.codegen.vulkan.values import INT64, DType, Kind, Value

WIDEST = 4
"""The largest number of lanes of a vector."""
_CAPABILITIES = {
    "u8": Capability.STORAGE_BUFFER_8BIT_ACCESS,
    "u16": Capability.STORAGE_BUFFER_16BIT_ACCESS,
    "f16": Capability.STORAGE_BUFFER_16BIT_ACCESS,
}
"""The capability that a buffer argument needs, by the small type of its elements."""
_BYTES = {"u8": 1, "u16": 2, "f16": 2, "u32": 4, "f32": 4, "u64": 8, "f64": 8}


@dataclass
class Memory:
    """One buffer of a kernel, and the state of its translation."""

    dtype: DType
    stored: Kind
    """The type of the elements in memory."""
    storage: Storage
    length: int | None
    """The number of scalars, or None if it is not known."""
    binding: int = 0
    """The binding number, if the buffer is an argument."""
    writable: bool = True
    restrict: bool = False
    """True if no other argument refers to the same memory."""
    width: int = 1
    """The number of lanes in an element of the variable; an argument has one variable for each width that is used."""
    variables: dict[int, int] = field(default_factory=dict)
    """The ids of the variables, by their width."""
    registers: dict[int, int] = field(default_factory=dict)
    """The ids of the thread's variables that hold elements during a loop, by the id of the element's index."""
    written: dict[int, tuple[Value, int]] = field(default_factory=dict)
    """The index and the id of each stored value that is still valid in this block, by the index's id."""
    is_reread: bool = False
    """True if the kernel loads from this buffer and also writes to it."""

    @property
    def element_bytes(self) -> int:
        """The size of a scalar in memory, in bytes."""
        return _BYTES[self.stored]


def are_distinct(places: list[Value]) -> bool:
    """Return whether no two of these indices can be equal."""
    known = [(0, place.constant) if place.constant is not None else _read_sum(place) for place in places]
    return len(places) == 1 or (len({base for base, _ in known}) == 1 and len(set(known)) == len(places))


def _read_sum(place: Value) -> tuple[int, int]:
    return (place.base or place).id, place.offset


class Access:
    """An emitter of a kernel's loads and stores."""

    def __init__(self, emitter: Emitter, integers: Integers, conversions: Conversions) -> None:
        self._emit = emitter
        self._integers = integers
        self._convert = conversions

    def load(self, memory: Memory, start: Value, count: int) -> tuple[Value, ...]:
        """Load ``count`` scalars, beginning at the index ``start``."""
        found: list[int] = []
        while len(found) < count:
            at = self._at(start, len(found))
            width = self._fit(memory, at, count - len(found))
            pointer = self._pointer(memory, at, width)
            memory.is_reread |= memory.writable and at.id not in memory.registers
            constant = memory.restrict and not memory.writable
            loaded = self._emit.read(pointer, memory.stored, width, constant=constant)
            if width == 1:
                found.append(loaded)
            else:
                extract = [self._emit.pure(Op.COMPOSITE_EXTRACT, memory.stored, loaded, lane) for lane in range(width)]
                found.extend(extract)
        return tuple(self._convert.from_memory(each, memory.dtype, memory.stored) for each in found)

    def store(self, memory: Memory, start: Value, values: tuple[Value, ...]) -> None:
        """Store the scalars, beginning at the index ``start``."""
        done = 0
        while done < len(values):
            at = self._at(start, done)
            width = self._fit(memory, at, len(values) - done)
            pointer = self._pointer(memory, at, width)
            parts = [self._convert.to_memory(each, memory.dtype, memory.stored) for each in values[done : done + width]]
            whole = parts[0] if width == 1 else self._compose(memory.stored, parts)
            self._emit.assembly.emit(Op.STORE, pointer, whole)
            if memory.storage == Storage.STORAGE_BUFFER:
                self._remember(memory, at, whole, width)
            done += width

    def _remember(self, memory: Memory, at: Value, whole: int, width: int) -> None:
        """Remember the stored value, and forget the values that it may have overwritten."""
        if width > 1:
            memory.written.clear()
        else:
            kept = {key: each for key, each in memory.written.items() if are_distinct([each[0], at])}
            memory.written = {**kept, at.id: (at, whole)}

    def keep(self, memory: Memory, index: Value) -> None:
        """Keep the element at an index in a variable of the thread until ``release`` is called."""
        variable = self._emit.assembly.local(self._emit.assembly.scalar(memory.stored))
        if index.id in memory.written:
            _, value = memory.written[index.id]
        else:
            memory.is_reread = True
            value = self._emit.read(self._pointer(memory, index, 1), memory.stored)
        self._emit.assembly.emit(Op.STORE, variable, value)
        memory.registers[index.id] = variable

    def release(self, memory: Memory, index: Value) -> None:
        """Write the element that ``keep`` has put into a variable back to the buffer."""
        variable = memory.registers.pop(index.id)
        loaded = self._emit.read(variable, memory.stored)
        self._emit.assembly.emit(Op.STORE, self._pointer(memory, index, 1), loaded)

    def _at(self, start: Value, distance: int) -> Value:
        return self._integers.add(start, self._emit.integer(distance), INT64) if distance else start

    def _fit(self, memory: Memory, start: Value, count: int) -> int:
        """Return the width of the widest vector that can be accessed at ``start``, at most ``count``."""
        if memory.registers:
            return 1
        widest = WIDEST if memory.storage == Storage.STORAGE_BUFFER else memory.width
        width = 1
        while width * 2 <= min(widest, count) and start.multiple % (width * 2) == 0:
            width *= 2
        return width if memory.storage == Storage.STORAGE_BUFFER or width == memory.width else 1

    def _compose(self, kind: Kind, parts: list[int]) -> int:
        return self._emit.assembly.result(Op.COMPOSITE_CONSTRUCT, self._emit.assembly.vector(kind, len(parts)), *parts)

    def _pointer(self, memory: Memory, index: Value, width: int) -> int:
        if index.id in memory.registers:
            return memory.registers[index.id]
        assembly = self._emit.assembly
        type_id = assembly.pointer(memory.storage, assembly.vector(memory.stored, width))
        if memory.storage == Storage.STORAGE_BUFFER:
            element = self._divide(index, width)
            return self._emit.point(type_id, self._variable(memory, width), assembly.constant("u32", 0), element)
        variable = self._variable(memory, memory.width)
        if memory.length == memory.width:  # a single element
            return self._emit.point(type_id, variable, index.id) if width < memory.width else variable
        if memory.width == width:
            return self._emit.point(type_id, variable, self._divide(index, width))
        part = self._integers.remainder(index, self._emit.integer(memory.width), INT64)
        return self._emit.point(type_id, variable, self._divide(index, memory.width), part.id)

    def _divide(self, index: Value, width: int) -> int:
        return self._integers.divide(index, self._emit.integer(width), INT64).id

    def _variable(self, memory: Memory, width: int) -> int:
        if width in memory.variables:
            return memory.variables[width]
        assembly = self._emit.assembly
        element = assembly.vector(memory.stored, width)
        if memory.storage == Storage.STORAGE_BUFFER:
            if memory.stored in _CAPABILITIES:
                assembly.capabilities.add(_CAPABILITIES[memory.stored])
            variable = assembly.buffer(memory.binding, element, memory.element_bytes * width)
        else:
            count = -(-(memory.length or 1) // width)
            type_id = element if memory.length == width else assembly.array(element, count)
            variable = assembly.shared(type_id) if memory.storage == Storage.WORKGROUP else assembly.local(type_id)
        memory.variables[width] = variable
        return variable

    def finish(self, memories: list[Memory]) -> None:
        """Decorate the arguments' variables as read-only, restrict or aliased.

        If the kernel also loads from an argument that it writes, only aliased is set: with the other decorations,
        NVIDIA's driver loaded the old data.
        """
        trusted = not any(memory.is_reread for memory in memories)
        for memory in memories:
            for variable in memory.variables.values():
                if not memory.writable and trusted:
                    self._emit.assembly.decorate(variable, Decoration.NON_WRITABLE)
                if len(memory.variables) > 1 and memory.writable:
                    self._emit.assembly.decorate(variable, Decoration.ALIASED)
                elif memory.restrict and trusted:
                    self._emit.assembly.decorate(variable, Decoration.RESTRICT)
