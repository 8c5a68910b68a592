"""Generation of one kernel from one PrimFunc, after TVM has split host and device code."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, tirx

from tvmbuild.compiler.codegen.vulkan.assembly import Assembly
from tvmbuild.compiler.codegen.vulkan.emitter import Emitter
from tvmbuild.compiler.codegen.vulkan.expressions import Expressions
from tvmbuild.compiler.codegen.vulkan.memory import Memory
from tvmbuild.compiler.codegen.vulkan.opcodes import Capability, Storage
from tvmbuild.compiler.codegen.vulkan.statements import Statements
from tvmbuild.compiler.codegen.vulkan.threads import Threads
from tvmbuild.compiler.codegen.vulkan.tree import count_scalars, read_dtype, walk_statements
from tvmbuild.compiler.codegen.vulkan.values import DType, Value
from tvmbuild.errors import TvmbuildError

_SCALARS = {"int32": 0, "int64": 1, "float32": 2, "uint32": 3, "bool": 4}
"""The number of a scalar argument's type in the module's format, by the type's name."""
MAX_BUFFERS = 64
"""The largest number of buffers of a kernel in the runtime, whatever the device allows."""
_FEATURES = {
    Capability.FLOAT16: (0, "supports_float16"),
    Capability.INT64: (3, "supports_int64"),
    Capability.FLOAT64: (4, "supports_float64"),
    Capability.STORAGE_BUFFER_8BIT_ACCESS: (5, "supports_8bit_buffer"),
    Capability.STORAGE_BUFFER_16BIT_ACCESS: (6, "supports_16bit_buffer"),
    Capability.DOT_PRODUCT: (7, "supports_integer_dot_product"),
}
"""The bit in the module's format and the target's attribute for each capability that a kernel may need."""
_GRANTED = frozenset({Capability.SHADER, Capability.DOT_PRODUCT_INPUT_4X8BIT_PACKED})
"""Capabilities that need no check: all devices have shaders, and all devices with dot products have packed operands."""
_LIMITS = {
    "max_threads_per_block": ("threads in a block", 1024),
    "max_shared_memory_per_block": ("bytes of shared memory", 16384),
    "max_per_stage_descriptor_storage_buffer": ("buffers", MAX_BUFFERS),
    "max_push_constants_size": ("bytes of scalar arguments", 128),
}
"""The name of the counted things, and the limit for a target that states none, by the target's attribute."""


@dataclass(frozen=True)
class Kernel:
    """The SPIR-V code of one kernel, and its calling convention."""

    name: str
    read_only: tuple[bool, ...]
    """True if the kernel only reads a buffer, for each buffer."""
    scalars: tuple[int, ...]
    extents: int
    """The number of launch extents, which are the last arguments of a call."""
    groups: tuple[int, int, int]
    """The index of the launch extent with the number of groups, for x, y and z; -1 stands for one group; or FOLDED."""
    local_size: tuple[int, int, int]
    shared_bytes: int
    features: int
    words: tuple[int, ...]


def generate_kernel(function: tvm.tirx.PrimFunc, target: tvm.target.Target) -> Kernel:
    """Generate a kernel; raise TvmbuildError if the target lacks a feature, or if an operation has no Vulkan code."""
    name = str(function.attrs["global_symbol"])
    try:
        return _Generator(function, name, dict(target.attrs)).run()
    except NotImplementedError as error:
        raise TvmbuildError(f"the kernel {name} has {error}, for which there is no Vulkan code") from error


class _Generator:
    def __init__(self, function: tvm.tirx.PrimFunc, name: str, attributes: dict[str, Any]) -> None:
        self._function = function
        self._name = name
        self._attributes = attributes
        self._assembly = Assembly()
        self._emit = Emitter(self._assembly)
        self._make = Expressions(self._emit)
        tags = [str(tag) for tag in function.attrs.get("tirx.kernel_launch_params", ())]
        self._extents = len(tags)
        self._threads = Threads(self._make, tags)
        self._statements = Statements(self._make, self._threads)

    def run(self) -> Kernel:
        buffers, scalars = self._bind_parameters()
        self._statements.run(self._function.body)
        self._make.access.finish(buffers)
        self._threads.check()
        size = self._threads.list_threads()
        self._check_limits(size, len(buffers), len(scalars))
        words = self._assembly.finish(size)
        capabilities = self._check_capabilities()
        return Kernel(
            name=self._name,
            read_only=tuple(not memory.writable for memory in buffers),
            scalars=scalars,
            extents=self._extents,
            groups=self._threads.list_groups(),
            local_size=size,
            shared_bytes=self._statements.shared_bytes,
            features=sum(1 << _FEATURES[each][0] for each in capabilities),
            words=tuple(words),
        )

    def _bind_parameters(self) -> tuple[list[Memory], tuple[int, ...]]:
        written = self._list_written()
        restrict = bool(self._function.attrs.get("tirx.noalias", False))
        lengths = self._list_lengths()
        buffers: list[Memory] = []
        scalars: list[Any] = []
        for parameter in self._function.params:
            if isinstance(parameter.ty, ir.PointerType):
                dtype, _ = read_dtype(str(parameter.ty.element_type.dtype))
                length = lengths.get(hash(parameter))
                memory = Memory(dtype, dtype.memory, Storage.STORAGE_BUFFER, length, binding=len(buffers))
                memory.writable, memory.restrict = hash(parameter) in written, restrict
                buffers.append(memory)
                if str(parameter.ty.storage_scope) == "local":  # TVM makes it a parameter; each thread has its own
                    memory.writable = False
                    memory = Memory(dtype, dtype.scratch, Storage.FUNCTION, length)
                self._make.memories[hash(parameter)] = memory, 1
            else:
                scalars.append(parameter)
        types = tuple(str(each.ty.dtype) for each in scalars)
        for each in types:
            if each not in _SCALARS:
                raise NotImplementedError(f"an argument of type {each}")
        if scalars:
            self._bind_scalars(scalars, [read_dtype(each)[0] for each in types])
        return buffers, tuple(_SCALARS[each] for each in types)

    def _bind_scalars(self, parameters: list[Any], dtypes: list[DType]) -> None:
        stored = ["u32" if dtype.register == "bool" else dtype.register for dtype in dtypes]
        variable = self._assembly.push_constants(stored)
        for index, (parameter, dtype, kind) in enumerate(zip(parameters, dtypes, stored, strict=True)):
            type_id = self._assembly.pointer(Storage.PUSH_CONSTANT, self._assembly.scalar(kind))
            pointer = self._emit.point(type_id, variable, self._assembly.constant("u32", index))
            loaded = self._emit.read(pointer, kind, constant=True)
            value: Value = self._make.convert.from_memory(loaded, dtype, kind)
            self._make.variables[hash(parameter)] = (value,)

    def _list_written(self) -> set[int]:
        """Return the addresses of the parameters that the kernel writes."""
        names: dict[int, int] = {}
        stored: set[int] = set()
        for node in walk_statements(self._function.body):
            if isinstance(node, tirx.DeclBuffer):
                names[hash(node.buffer)] = names.get(hash(node.data), hash(node.data))
            elif isinstance(node, tirx.BufferStore):
                stored.add(hash(node.buffer))
        return {names.get(each, each) for each in stored}

    def _list_lengths(self) -> dict[int, int]:
        """Return the number of scalars in each parameter, by the parameter's address."""
        found: dict[int, int] = {}
        for node in walk_statements(self._function.body):
            if isinstance(node, tirx.DeclBuffer) and all(
                isinstance(each, tirx.IntImm) for each in node.buffer.ty.shape
            ):
                found[hash(node.data)] = max(found.get(hash(node.data), 0), count_scalars(node.buffer.ty))
        return found

    def _check_limits(self, size: tuple[int, int, int], buffers: int, scalars: int) -> None:
        counts = {
            "max_threads_per_block": size[0] * size[1] * size[2],
            "max_shared_memory_per_block": self._statements.shared_bytes,
            "max_per_stage_descriptor_storage_buffer": buffers,
            "max_push_constants_size": 8 * scalars,
        }
        if buffers > MAX_BUFFERS:
            raise TvmbuildError(
                f"the kernel {self._name} has {buffers} buffers; the Vulkan runtime takes {MAX_BUFFERS}",
                "simplify this part of the model: a concatenation of so many tensors, say, in two steps",
            )
        for attribute, count in counts.items():
            what, most = _LIMITS[attribute]
            allowed = int(self._attributes.get(attribute, most))
            if count > allowed:
                raise TvmbuildError(
                    f"the kernel {self._name} has {count} {what}; the target allows {allowed}",
                    f"say `{attribute}: {count}` where the devices allow it, or simplify this part of the model",
                )

    def _check_capabilities(self) -> list[Capability]:
        """Return the capabilities that the kernel needs; raise TvmbuildError if the target lacks one of them."""
        needed = sorted(self._assembly.capabilities - _GRANTED)
        for capability in needed:
            attribute = _FEATURES[capability][1]
            if not self._attributes.get(attribute, False):
                raise TvmbuildError(
                    f"the kernel {self._name} needs what the target's devices lack: {attribute}",
                    f"say `{attribute}: true` where they have it, or change the model's types",
                )
        return needed


def pack_module(kernels: list[Kernel]) -> bytes:
    """Return the bytes of a module with these kernels, in the format that the runtime loads."""
    body = bytearray(len(kernels).to_bytes(4, "little"))
    for kernel in kernels:
        name = kernel.name.encode()
        for content in (name, bytes(kernel.read_only), bytes(kernel.scalars)):
            body += len(content).to_bytes(4, "little") + content
        body += kernel.extents.to_bytes(4, "little")
        body += b"".join(index.to_bytes(1, "little", signed=True) for index in kernel.groups)
        numbers = (*kernel.local_size, kernel.shared_bytes, kernel.features, len(kernel.words), *kernel.words)
        body += b"".join(number.to_bytes(4, "little") for number in numbers)
    return MAGIC + (len(body) + HEADER).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + bytes(body)


MAGIC = b"tvmbSPV\x01"
HEADER = 16
"""The number of bytes before the part that the checksum covers."""
