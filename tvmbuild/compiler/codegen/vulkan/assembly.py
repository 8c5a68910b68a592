"""A SPIR-V module under construction, in the order of the format; types, constants and variables are declared once."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable

from tvmbuild.compiler.codegen.vulkan import opcodes
from tvmbuild.compiler.codegen.vulkan.opcodes import Capability, Decoration, Op, Storage

_EXTENSIONS = {
    Capability.STORAGE_BUFFER_8BIT_ACCESS: "SPV_KHR_8bit_storage",
    Capability.STORAGE_BUFFER_16BIT_ACCESS: "SPV_KHR_16bit_storage",
    Capability.DOT_PRODUCT: "SPV_KHR_integer_dot_product",
}
_TYPES = {"f16": Capability.FLOAT16, "f64": Capability.FLOAT64, "u64": Capability.INT64}
_FLOATS = {"f16": 16, "f32": 32, "f64": 64}
_INTEGERS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
_PACKING = {"f32": "<f", "f64": "<d", "u32": "<I", "u64": "<Q"}


class Assembly:
    """A SPIR-V module with one kernel, `main`.

    Scalar types are named `bool`, `u8` … `u64` and `f16` … `f64`. Integer types have no sign; instead, there are signed
    and unsigned instructions. Methods return the ids of the things that they declare.
    """

    def __init__(self) -> None:
        self.capabilities = {Capability.SHADER}
        self._last = 0
        self._known: dict[Hashable, int] = {}
        self._decorations: list[int] = []
        self._globals: list[int] = []
        self._variables: list[int] = []
        self._code: list[int] = []
        self._interface: list[int] = []
        self.glsl = self.new_id()

    def new_id(self) -> int:
        """Return an unused id."""
        self._last += 1
        return self._last

    # ------------------------------------------------------------------- code

    def emit(self, op: Op, *operands: int) -> None:
        """Append an instruction without a result."""
        _append(self._code, op, operands)

    def result(self, op: Op, type_id: int, *operands: int) -> int:
        """Append an instruction and return the id of its result."""
        result = self.new_id()
        _append(self._code, op, (type_id, result, *operands))
        return result

    def emit_as(self, result: int, op: Op, type_id: int, *operands: int) -> None:
        """Append an instruction with an id for its result that ``new_id`` has returned."""
        _append(self._code, op, (type_id, result, *operands))

    def decorate(self, what: int, decoration: Decoration, *values: int) -> None:
        """Decorate a result, a type or a variable."""
        _append(self._decorations, Op.DECORATE, (what, decoration, *values))

    # ------------------------------------------------------------------- types and constants

    def scalar(self, name: str) -> int:
        """Return the scalar type of this name, and require the capability that the type needs."""
        if name == "bool":
            return self._declare(Op.TYPE_BOOL)
        if name in _TYPES:
            self.capabilities.add(_TYPES[name])
        if name in _FLOATS:
            return self._declare(Op.TYPE_FLOAT, _FLOATS[name])
        return self._declare(Op.TYPE_INT, _INTEGERS[name], 0)

    def vector(self, name: str, lanes: int) -> int:
        """Return the vector type of this scalar type and number of lanes; for one lane, return the scalar type."""
        return self.scalar(name) if lanes == 1 else self._declare(Op.TYPE_VECTOR, self.scalar(name), lanes)

    def array(self, element: int, length: int) -> int:
        """Return the type of an array of constant length in a kernel's own memory."""
        return self._declare(Op.TYPE_ARRAY, element, self.constant("u32", length))

    def pointer(self, storage: Storage, type_id: int) -> int:
        """Return the type of pointers to a type in a storage class."""
        return self._declare(Op.TYPE_POINTER, storage, type_id)

    def constant(self, name: str, value: float) -> int:
        """Return a constant of the scalar type of this name; an integer that is too large wraps around."""
        if name == "bool":
            return self._constant((name, bool(value)), Op.CONSTANT_TRUE if value else Op.CONSTANT_FALSE, name, b"")
        if name == "f16":
            content = struct.pack("<e", _to_half(float(value))) + b"\0\0"
        elif name in _FLOATS:
            content = struct.pack(_PACKING[name], float(value))
        else:
            wide = "u64" if name == "u64" else "u32"
            content = struct.pack(_PACKING[wide], int(value) % (1 << _INTEGERS[name]))
        return self._constant((name, content), Op.CONSTANT, name, content)

    def _constant(self, key: Hashable, op: Op, name: str, content: bytes) -> int:
        if (found := self._known.get(key)) is not None:
            return found
        type_id, result = self.scalar(name), self.new_id()
        _append(self._globals, op, (type_id, result, *struct.unpack(f"<{len(content) // 4}I", content)))
        self._known[key] = result
        return result

    def _declare(self, op: Op, *operands: int) -> int:
        key = (op, operands)
        if key not in self._known:
            result = self.new_id()
            _append(self._globals, op, (result, *operands))
            self._known[key] = result
        return self._known[key]

    # ------------------------------------------------------------------- variables

    def buffer(self, binding: int, element: int, stride: int) -> int:
        """Declare a storage buffer that is one array, and return its variable; ``stride`` is the size of an element.

        Sizes are in bytes. The caller decorates the variable as read-only, restrict or aliased.
        """
        array = self._once(("array", element, stride), Op.TYPE_RUNTIME_ARRAY, element)
        if ("stride", array) not in self._known:
            self._known["stride", array] = array
            self.decorate(array, Decoration.ARRAY_STRIDE, stride)
        block = self._block((array,), (0,))
        variable = self._variable(Storage.STORAGE_BUFFER, block)
        self.decorate(variable, Decoration.DESCRIPTOR_SET, 0)
        self.decorate(variable, Decoration.BINDING, binding)
        return variable

    def push_constants(self, names: Iterable[str]) -> int:
        """Declare the scalar arguments of a call, eight bytes each, with types of these names; return their variable.

        The kernel accesses an argument by its index.
        """
        members = tuple(self.scalar(name) for name in names)
        return self._variable(Storage.PUSH_CONSTANT, self._block(members, tuple(8 * i for i in range(len(members)))))

    def builtin(self, number: int) -> int:
        """Return a built-in input variable, which is a vector of three unsigned integers."""
        key = ("builtin", number)
        if key not in self._known:
            variable = self._variable(Storage.INPUT, self.vector("u32", 3))
            self.decorate(variable, Decoration.BUILT_IN, number)
            self._interface.append(variable)
            self._known[key] = variable
        return self._known[key]

    def shared(self, type_id: int) -> int:
        """Declare a variable in the shared memory of the workgroup and return it."""
        return self._variable(Storage.WORKGROUP, type_id)

    def local(self, type_id: int) -> int:
        """Declare a variable in the memory of one thread and return it."""
        result = self.new_id()
        _append(self._variables, Op.VARIABLE, (self.pointer(Storage.FUNCTION, type_id), result, Storage.FUNCTION))
        return result

    def _variable(self, storage: Storage, type_id: int) -> int:
        pointer, result = self.pointer(storage, type_id), self.new_id()
        _append(self._globals, Op.VARIABLE, (pointer, result, storage))
        return result

    def _block(self, members: tuple[int, ...], offsets: tuple[int, ...]) -> int:
        block = self._once(("block", members), Op.TYPE_STRUCT, *members)
        if ("offsets", block) not in self._known:
            self._known["offsets", block] = block
            self.decorate(block, Decoration.BLOCK)
            for index, offset in enumerate(offsets):
                _append(self._decorations, Op.MEMBER_DECORATE, (block, index, Decoration.OFFSET, offset))
        return block

    def _once(self, key: Hashable, op: Op, *operands: int) -> int:
        """Declare a type that differs from equal types only by its decorations, once for each key."""
        if key not in self._known:
            result = self.new_id()
            _append(self._globals, op, (result, *operands))
            self._known[key] = result
        return self._known[key]

    # ------------------------------------------------------------------- the whole

    def finish(self, local_size: tuple[int, int, int]) -> list[int]:
        """Return the words of the complete module; ``local_size`` is the number of threads of a group in x, y and z."""
        void = self._declare(Op.TYPE_VOID)
        signature = self._declare(Op.TYPE_FUNCTION, void)
        main, label = self.new_id(), self.new_id()
        head: list[int] = []
        for capability in sorted(self.capabilities):
            _append(head, Op.CAPABILITY, (capability,))
        for capability in sorted(self.capabilities & _EXTENSIONS.keys()):
            _append(head, Op.EXTENSION, _text(_EXTENSIONS[Capability(capability)]))
        _append(head, Op.EXT_INST_IMPORT, (self.glsl, *_text("GLSL.std.450")))
        _append(head, Op.MEMORY_MODEL, (opcodes.LOGICAL, opcodes.GLSL450))
        _append(head, Op.ENTRY_POINT, (opcodes.COMPUTE, main, *_text("main"), *self._interface))
        _append(head, Op.EXECUTION_MODE, (main, opcodes.LOCAL_SIZE, *local_size))
        function: list[int] = []
        _append(function, Op.FUNCTION, (void, main, 0, signature))
        _append(function, Op.LABEL, (label,))
        end: list[int] = []
        _append(end, Op.RETURN, ())
        _append(end, Op.FUNCTION_END, ())
        body = [*function, *self._variables, *self._code, *end]
        header = [opcodes.MAGIC, opcodes.VERSION, 0, self._last + 1, 0]
        return [*header, *head, *self._decorations, *self._globals, *body]


def _append(words: list[int], op: Op, operands: Iterable[int]) -> None:
    """Append an instruction: its length and number, then its operands."""
    content = tuple(operands)
    words.append((len(content) + 1) << 16 | op)
    words.extend(content)


def _text(text: str) -> tuple[int, ...]:
    content = text.encode() + b"\0"
    content += b"\0" * (-len(content) % 4)
    return struct.unpack(f"<{len(content) // 4}I", content)


def _to_half(value: float) -> float:
    """Return the number, or infinity with its sign if the number is too large for half precision."""
    try:
        struct.pack("<e", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value
