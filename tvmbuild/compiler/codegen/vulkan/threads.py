"""Thread and block indices of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmbuild.compiler.codegen.vulkan import opcodes
from tvmbuild.compiler.codegen.vulkan.expressions import Expressions
from tvmbuild.compiler.codegen.vulkan.opcodes import Op, Storage
from tvmbuild.compiler.codegen.vulkan.values import Value

MAX_GROUPS = 65535
"""The number of groups in each direction that every Vulkan device allows."""
AXES = "xyz"
FOLDED = -2
"""The mark, in place of an extent, of an axis that continues more than MAX_GROUPS groups of x."""
_BUILTINS = {
    f"{tag}.{axis}": (number, index)
    for tag, number in (("blockIdx", opcodes.WORKGROUP_ID), ("threadIdx", opcodes.LOCAL_INVOCATION_ID))
    for index, axis in enumerate(AXES)
}


class Threads:
    """The thread and block indices of a kernel, and their extents."""

    def __init__(self, expressions: Expressions, tags: Sequence[str]) -> None:
        self._make = expressions
        self._emit = expressions.emit
        self._assembly = expressions.emit.assembly
        self._tags = tags
        self.extents: dict[str, int] = {}
        """The constant extents, by the tag of the index, for example `blockIdx.x`."""

    def bind(self, node: Any) -> Value | None:
        """Bind a thread or block index; return the condition that its block exists, or None if it always exists."""
        tag, address = str(node.node.thread_tag), hash(node.node.var)
        if address in self._make.variables:
            return None
        if tag not in _BUILTINS:
            raise NotImplementedError(f"threads of {tag}")
        extent = int(node.value) if isinstance(node.value, tirx.IntImm) else None
        if extent is not None:
            self.extents[tag] = extent
        if extent == 1:
            self._make.variables[address] = (self._emit.integer(0),)
            return None
        most = (extent or 1 << 31) - 1
        if tag == "blockIdx.x" and self.fold is not None:
            number = self._number_folded(self.fold)
            self._make.variables[address] = (Value(number, "u32", 0, most),)
            return Value(self._emit.pure(Op.U_LESS_EQUAL, "bool", number, self._constant(most)), "bool", 0, 1)
        self._make.variables[address] = (Value(self._read(*_BUILTINS[tag]), "u32", 0, most),)
        return None

    @property
    def fold(self) -> int | None:
        """The axis (1 for y, 2 for z) along which the groups of x continue, or None if they fit or no axis is free."""
        if self.extents.get("blockIdx.x", 1) <= MAX_GROUPS:
            return None
        return next((axis for axis in (2, 1) if f"blockIdx.{AXES[axis]}" not in self._tags), None)

    def list_groups(self) -> tuple[int, int, int]:
        """Return the index of the launch extent with the number of groups in x, y and z; -1 is one group; or FOLDED."""
        found = [self._tags.index(tag) if (tag := f"blockIdx.{axis}") in self._tags else -1 for axis in AXES]
        if self.fold is not None:
            found[self.fold] = FOLDED
        return found[0], found[1], found[2]

    def list_threads(self) -> tuple[int, int, int]:
        """Return the number of threads of a group in x, y, z."""
        x, y, z = (self.extents.get(f"threadIdx.{axis}", 1) for axis in AXES)
        return x, y, z

    def check(self) -> None:
        """Raise NotImplementedError if the numbers of threads or blocks cannot be launched."""
        for tag in self._tags:
            if tag.startswith("threadIdx") and tag not in self.extents:
                raise NotImplementedError(f"a number of threads in {tag} that is not constant")
            if tag.startswith("blockIdx") and self.extents.get(tag, 1) > self._most_groups(tag):
                raise NotImplementedError(f"{self.extents[tag]} blocks in {tag}, more than {self._most_groups(tag)}")

    def _most_groups(self, tag: str) -> int:
        return MAX_GROUPS**2 if tag == "blockIdx.x" and self.fold is not None else MAX_GROUPS

    def _number_folded(self, axis: int) -> int:
        """Return a block's index in x if rows of blocks follow each other along another axis."""
        row = self._emit.pure(
            Op.I_MUL, "u32", self._read(opcodes.WORKGROUP_ID, axis), self._read(opcodes.NUM_WORKGROUPS, 0)
        )
        return self._emit.pure(Op.I_ADD, "u32", row, self._read(opcodes.WORKGROUP_ID, 0))

    def _read(self, builtin: int, index: int) -> int:
        pointer = self._emit.point(
            self._assembly.pointer(Storage.INPUT, self._assembly.scalar("u32")),
            self._assembly.builtin(builtin),
            self._constant(index),
        )
        return self._emit.read(pointer, "u32", constant=True)

    def _constant(self, value: int) -> int:
        return self._assembly.constant("u32", value)
