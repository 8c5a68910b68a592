"""Accumulators: elements of arguments that a loop reads and writes at an index that does not change within the loop.

The generated code keeps accumulators in registers, which is faster. In memory, next to arguments that are only read,
NVIDIA's driver computed wrong maxima.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm import ir, tirx
from tvm_ffi import structural_equal

from tvmbuild.compiler.codegen.vulkan.expressions import Expressions
from tvmbuild.compiler.codegen.vulkan.memory import Memory, are_distinct
from tvmbuild.compiler.codegen.vulkan.opcodes import Storage
from tvmbuild.compiler.codegen.vulkan.tree import defined_in, dtype_of, walk, walk_statements
from tvmbuild.compiler.codegen.vulkan.values import Value

_SYNCHRONISE = "tirx.tvm_storage_sync"


@dataclass
class _Accesses:
    """The accesses of a loop to one argument."""

    memory: Memory
    indices: list[Any] = field(default_factory=list)
    """The indices of the accesses, without duplicates."""
    is_read: bool = False
    has_lanes: bool = False


def list_accumulators(loop: Any, make: Expressions) -> list[tuple[Memory, Value]]:
    """Return the loop's accumulators, each as its buffer and its index in that buffer.

    Either all elements that the loop accesses in a buffer are accumulators, or none of them. They must be elements that
    every iteration of the loop writes: a thread that does not write an element must neither read it nor write it back.
    """
    if not _turns(loop) or not any(_is_argument(each, make) for each in walk_statements(loop.body)):
        return []
    inside = defined_in(loop)
    stored = list(_list_stores(loop.body))
    found: list[tuple[Memory, Value]] = []
    for accesses in _list_accesses(loop, make):
        memory = accesses.memory
        if accesses.has_lanes or not (accesses.is_read and memory.writable and memory.restrict) or memory.registers:
            continue
        if not all(_stays(index, inside) and _is_among(index, stored) for index in accesses.indices):
            continue
        places = [make.scalar(index) for index in accesses.indices]
        if are_distinct(places):
            found += [(memory, place) for place in places]
    return found


def is_barrier(node: Any) -> bool:
    """Return whether the node is a barrier, at which threads wait for each other."""
    return isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and str(node.op.name) == _SYNCHRONISE


def _turns(loop: Any) -> bool:
    return isinstance(loop.extent, tirx.IntImm) and int(loop.extent) > 0


def _stays(index: Any, inside: set[int]) -> bool:
    """Return whether the index stays the same throughout the loop."""
    return not any(
        isinstance(node, ir.TensorLoad) or (isinstance(node, tirx.Var) and hash(node) in inside) for node in walk(index)
    )


def _is_among(index: Any, others: list[Any]) -> bool:
    return any(structural_equal(index, each) for each in others)


def _list_stores(statement: Any) -> Iterator[Any]:
    """Yield the indices that are written whenever the statement runs."""
    if isinstance(statement, tirx.BufferStore):
        yield statement.indices[0]
    elif isinstance(statement, tirx.SeqStmt):
        for each in statement.seq:
            yield from _list_stores(each)
    elif isinstance(statement, tirx.AttrStmt) or (isinstance(statement, tirx.For) and _turns(statement)):
        yield from _list_stores(statement.body)


def _argument(buffer: Any, make: Expressions) -> tuple[Memory, int] | None:
    memory, lanes = make.memories.get(hash(buffer), (None, 0))
    return None if memory is None or memory.storage != Storage.STORAGE_BUFFER else (memory, lanes)


def _is_argument(statement: Any, make: Expressions) -> bool:
    return isinstance(statement, tirx.BufferStore) and _argument(statement.buffer, make) is not None


def _list_accesses(loop: Any, make: Expressions) -> list[_Accesses]:
    """Return the loop's accesses to each argument, or an empty list if the loop has a barrier."""
    found: dict[int, _Accesses] = {}
    for node in walk(loop.body):
        if is_barrier(node):
            return []
        if not isinstance(node, ir.TensorLoad | tirx.BufferStore):
            continue
        is_read = isinstance(node, ir.TensorLoad)
        argument = _argument(node.source if is_read else node.buffer, make)
        if argument is None:
            continue
        memory, lanes = argument
        accesses = found.setdefault(id(memory), _Accesses(memory))
        accesses.is_read |= is_read
        accesses.has_lanes |= lanes > 1 or dtype_of(node.indices[0])[1] > 1
        if not _is_among(node.indices[0], accesses.indices):
            accesses.indices.append(node.indices[0])
    return list(found.values())
