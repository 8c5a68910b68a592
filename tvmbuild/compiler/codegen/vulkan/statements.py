"""Translation of TensorIR statements to blocks of SPIR-V."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from tvm import ir, tirx

from tvmbuild.compiler.codegen.vulkan import opcodes
from tvmbuild.compiler.codegen.vulkan.accumulators import is_barrier, list_accumulators
from tvmbuild.compiler.codegen.vulkan.expressions import Expressions
from tvmbuild.compiler.codegen.vulkan.memory import WIDEST, Memory
from tvmbuild.compiler.codegen.vulkan.opcodes import Op, Storage
from tvmbuild.compiler.codegen.vulkan.threads import Threads
from tvmbuild.compiler.codegen.vulkan.tree import count_scalars, dtype_of, read_dtype, walk
from tvmbuild.compiler.codegen.vulkan.values import Value

_STORAGES = {"shared": Storage.WORKGROUP, "local": Storage.FUNCTION}
_UNROLLED = 3
"""The number of TensorIR's loop kind for unrolled loops."""


class Statements:
    """A translator of statements, which emits one statement after another."""

    def __init__(self, expressions: Expressions, threads: Threads) -> None:
        self._make = expressions
        self._threads = threads
        self._emit = expressions.emit
        self._assembly = expressions.emit.assembly
        self.shared_bytes = 0

    def run(self, statement: Any) -> None:
        """Emit a statement; raise NotImplementedError for a statement without Vulkan code."""
        handler = self._HANDLERS.get(type(statement))
        if handler is None:
            raise NotImplementedError(f"the statement {type(statement).__name__}")
        handler(self, statement)

    # ------------------------------------------------------------------- order and names

    def _sequence(self, node: Any) -> None:
        for each in node.seq:
            self.run(each)

    def _attribute(self, node: Any) -> None:
        exists = self._threads.bind(node) if node.attr_key in ("thread_extent", "virtual_thread") else None
        if exists is None:
            self.run(node.body)
        else:
            self._emit_branch(exists, node.body, None)

    def _bind(self, node: Any) -> None:
        address = hash(node.var)
        if any(isinstance(each, ir.TensorLoad | ir.Call) for each in walk(node.value)):
            self._make.variables[address] = self._make.vector(node.value)
        else:
            self._make.pending[address] = node.value

    def _evaluate(self, node: Any) -> None:
        call = node.value
        if is_barrier(call):
            scope = str(call.args[0].value)
            if scope not in ("shared", "shared.dyn"):
                raise NotImplementedError(f"a barrier of {scope}")
            group = self._assembly.constant("u32", opcodes.WORKGROUP_SCOPE)
            order = self._assembly.constant("u32", opcodes.SHARED_MEMORY_ORDER)
            self._forget()
            self._assembly.emit(Op.CONTROL_BARRIER, group, group, order)
        elif not isinstance(call, tirx.IntImm):
            raise NotImplementedError(f"the call {str(call)[:100]}")

    # ------------------------------------------------------------------- memory

    def _allocate(self, node: Any) -> None:
        kind = node.buffer.ty
        dtype, lanes = read_dtype(str(kind.dtype))
        scope = str(kind.storage_scope) or "local"
        if scope not in _STORAGES:
            raise NotImplementedError(f"memory of {scope}")
        length = max(count_scalars(kind), 1)
        width = lanes if lanes in (2, WIDEST) else WIDEST if lanes % WIDEST == 0 else 1
        memory = Memory(dtype, dtype.scratch, _STORAGES[scope], length, width=width)
        if memory.storage == Storage.WORKGROUP:
            self.shared_bytes += length * memory.element_bytes
        self._make.memories[hash(node.buffer)] = memory, lanes

    def _declare(self, node: Any) -> None:
        """Register a buffer as another name of existing memory, perhaps with more lanes for each index."""
        data = node.data.args[0] if isinstance(node.data, ir.Call) else node.data  # tirx.buffer_data of another buffer
        memory, _ = self._make.memories[hash(data)]
        dtype, lanes = read_dtype(str(node.buffer.ty.dtype))
        if dtype != memory.dtype:
            raise NotImplementedError(f"memory of {memory.dtype} read as {dtype}")
        self._make.memories[hash(node.buffer)] = memory, lanes

    def _store(self, node: Any) -> None:
        memory, lanes = self._make.memories[hash(node.buffer)]
        values = self._make.vector(node.value)
        done = 0
        for start, count in self._make.runs(node.indices[0], lanes):
            part = values[done : done + count] if len(values) > 1 else values * count
            self._make.access.store(memory, start, part)
            done += count

    def _forget(self) -> None:
        """Forget the stored values of all buffers, because other code may have changed them."""
        for memory, _ in self._make.memories.values():
            memory.written.clear()

    # ------------------------------------------------------------------- control

    def _branch(self, node: Any) -> None:
        condition = self._make.scalar(node.condition)
        if condition.low == condition.high:
            if condition.low:
                self.run(node.then_case)
            elif node.else_case is not None:
                self.run(node.else_case)
            return
        self._emit_branch(condition, node.then_case, node.else_case)

    def _emit_branch(self, condition: Value, then_case: Any, else_case: Any) -> None:
        yes, merge = self._assembly.new_id(), self._assembly.new_id()
        no = merge if else_case is None else self._assembly.new_id()
        self._assembly.emit(Op.SELECTION_MERGE, merge, opcodes.NO_CONTROL)
        self._assembly.emit(Op.BRANCH_CONDITIONAL, condition.id, yes, no)
        for label, case in ((yes, then_case), (no, else_case)):
            if case is not None:
                with self._emit.block():
                    self._forget()
                    self._assembly.emit(Op.LABEL, label)
                    self.run(case)
                    self._assembly.emit(Op.BRANCH, merge)
        self._forget()
        self._assembly.emit(Op.LABEL, merge)

    def _loop(self, node: Any) -> None:
        first, extent = self._make.scalar(node.min), self._make.scalar(node.extent)
        if extent.constant == 1:
            self._make.variables[hash(node.loop_var)] = (first,)
            self.run(node.body)
            return
        if extent.high <= 0:
            return
        dtype, _ = dtype_of(node.loop_var)
        last = self._make.integers.add(first, extent, dtype)
        first, last = self._make.integers.alike(first, last)
        step = 1 if node.step is None else int(node.step)
        with ExitStack() as stack:
            for memory, index in list_accumulators(node, self._make):
                self._make.access.keep(memory, index)
                stack.callback(self._make.access.release, memory, index)
            self._emit_loop(node, (first, last), step)

    def _emit_loop(self, node: Any, bounds: tuple[Value, Value], step: int) -> None:
        first, last = bounds
        assembly = self._assembly
        before, header, body, follow, merge = (assembly.new_id() for _ in range(5))
        following = assembly.new_id()
        kind = assembly.scalar(first.kind)
        assembly.emit(Op.BRANCH, before)
        assembly.emit(Op.LABEL, before)
        assembly.emit(Op.BRANCH, header)
        assembly.emit(Op.LABEL, header)
        counter = assembly.result(Op.PHI, kind, first.id, before, following, follow)
        less = Op.U_LESS_THAN if min(first.low, last.low) >= 0 else Op.S_LESS_THAN
        condition = assembly.result(less, assembly.scalar("bool"), counter, last.id)
        control = opcodes.UNROLL if int(node.kind) == _UNROLLED else opcodes.NO_CONTROL
        assembly.emit(Op.LOOP_MERGE, merge, follow, control)
        assembly.emit(Op.BRANCH_CONDITIONAL, condition, body, merge)
        value = Value(counter, first.kind, first.low, max(last.high - 1, first.low))
        self._make.variables[hash(node.loop_var)] = (value,)
        self._forget()
        with self._emit.block():
            assembly.emit(Op.LABEL, body)
            self.run(node.body)
            assembly.emit(Op.BRANCH, follow)
        self._forget()
        assembly.emit(Op.LABEL, follow)
        self._assembly.emit_as(following, Op.I_ADD, kind, counter, assembly.constant(first.kind, step))
        assembly.emit(Op.BRANCH, header)
        assembly.emit(Op.LABEL, merge)

    def _while(self, node: Any) -> None:
        assembly = self._assembly
        header, check, body, follow, merge = (assembly.new_id() for _ in range(5))
        assembly.emit(Op.BRANCH, header)
        assembly.emit(Op.LABEL, header)
        assembly.emit(Op.LOOP_MERGE, merge, follow, opcodes.NO_CONTROL)
        assembly.emit(Op.BRANCH, check)
        self._forget()
        with self._emit.block():
            assembly.emit(Op.LABEL, check)
            assembly.emit(Op.BRANCH_CONDITIONAL, self._make.scalar(node.condition).id, body, merge)
            assembly.emit(Op.LABEL, body)
            self.run(node.body)
            assembly.emit(Op.BRANCH, follow)
        self._forget()
        assembly.emit(Op.LABEL, follow)
        assembly.emit(Op.BRANCH, header)
        assembly.emit(Op.LABEL, merge)

    _HANDLERS: ClassVar[Mapping[type, Callable[[Statements, Any], None]]] = {
        tirx.SeqStmt: _sequence,
        tirx.AttrStmt: _attribute,
        tirx.Bind: _bind,
        tirx.Evaluate: _evaluate,
        tirx.AllocBuffer: _allocate,
        tirx.DeclBuffer: _declare,
        tirx.BufferStore: _store,
        tirx.IfThenElse: _branch,
        tirx.For: _loop,
        tirx.While: _while,
    }
