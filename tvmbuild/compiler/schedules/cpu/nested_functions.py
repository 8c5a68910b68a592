"""Local variables for the results of nested functions, as in `exp(tanh(x))`, so that code generation stays fast.

`fast_math` turns exp, tanh, erf and their like into polynomials, which read their operand many times. While TVM
generates code, its simplifier replaces each variable in an expression by its value. The time grows with the product of
these numbers: sigmoid of erf of tanh of sigmoid took more than ten minutes. It does not look through memory, and LLVM
keeps local variables in registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvmbuild.compiler.codegen.fast_math import FUNCTIONS
from tvmbuild.compiler.ir.expressions import int64, substitute
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import change_block, list_nodes, list_within

_CONDITIONAL = "prim.if_then_else"
"""The operator that evaluates one of two operands; nothing may be computed before it."""


def separate_nested_functions(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Store the results of functions within other functions' arguments in local variables.

    In a vectorised loop these are vectors, and each is written by its own loop: TVM's VectorizeLoop gives a
    variable that is declared in the loop one element instead of a vector. Equal results are computed once; operators
    that read their operand several times repeat it when they are inlined.
    """
    return map_prim_funcs(mod, _separate)


def _separate(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    calls = filter(_is_function, list_nodes(function, tvm.ir.Call))
    is_nested = any(_is_function(inner) for call in calls for inner in list_within(call.args, tvm.ir.Call))
    return function.with_body(_Rewriter().rewrite(function.body)) if is_nested else None


class _Rewriter:
    def __init__(self) -> None:
        self._made: list[Any] = []
        """The local variables of the block that is being visited."""
        self._is_vectorised = False

    def rewrite(self, body: Any) -> Any:
        return tvm_ffi.structural_mutate(body, [(tirx.For, self._visit_loop), (s_tir.SBlock, self._visit_block)])

    def _visit_loop(self, loop: tirx.For, mutator: Any) -> Any:
        if loop.kind != tirx.ForKind.VECTORIZED:
            return mutator.default_mutate(loop)
        if isinstance(loop.body, s_tir.SBlockRealize) and isinstance(loop.body.block.body, tirx.BufferStore):
            steps = self._split(loop.body.block.body, loop.loop_var, loop.extent)
            return tirx.SeqStmt([_repeat(loop, step) for step in steps]) if len(steps) > 1 else loop
        self._is_vectorised = True
        changed = mutator.default_mutate(loop)
        self._is_vectorised = False
        return changed

    def _visit_block(self, block: s_tir.SBlock, mutator: Any) -> s_tir.SBlock:
        outside, self._made = self._made, []
        changed = mutator.default_mutate(block)
        if isinstance(block.body, tirx.BufferStore) and not self._is_vectorised:
            steps = self._split(block.body, int64(0), int64(1))
            changed = change_block(changed, body=tirx.SeqStmt(steps)) if len(steps) > 1 else changed
        made, self._made = self._made, outside
        return change_block(changed, alloc_buffers=[*changed.alloc_buffers, *made]) if made else changed

    def _split(self, store: tirx.BufferStore, index: Any, extent: Any) -> list[tirx.BufferStore]:
        steps = _Steps(store, index, extent)
        self._made += [step.buffer for step in steps.stores[:-1]]
        return steps.stores


class _Steps:
    """A store split into several, so that no function is called in an argument; the last one stores the result."""

    def __init__(self, store: tirx.BufferStore, index: Any, extent: Any) -> None:
        """Place the results of inner functions at ``index`` of new buffers with ``extent`` elements."""
        self.stores: list[tirx.BufferStore] = []
        self._index, self._extent = index, extent
        self._results: dict[tvm_ffi.StructuralKey, tirx.BufferLoad] = {}
        self._depth = 0
        value = tvm_ffi.structural_mutate(store.value, [(tvm.ir.Call, self._visit)])
        self.stores.append(tirx.BufferStore(store.buffer, value, store.indices))

    def _visit(self, call: tvm.ir.Call, mutator: Any) -> Any:
        if _name(call) == _CONDITIONAL:
            return call
        is_function = _is_function(call)
        self._depth += is_function
        flat = mutator.default_mutate(call)
        self._depth -= is_function
        return self._keep(flat) if is_function and self._depth else flat

    def _keep(self, value: tvm.ir.Call) -> tirx.BufferLoad:
        key = tvm_ffi.StructuralKey(value)
        if key not in self._results:
            name = f"inner_{len(self._results)}"
            buffer = tirx.decl_buffer([self._extent], str(value.ty.dtype), name, scope="local")
            self.stores.append(tirx.BufferStore(buffer, value, [self._index]))
            self._results[key] = tirx.BufferLoad(buffer, [self._index])
        return self._results[key]


def _repeat(loop: tirx.For, store: tirx.BufferStore) -> tirx.For:
    """Return the loop around one block, with new variables, and with ``store`` as the block's statement."""
    realize: s_tir.SBlockRealize = loop.body
    to_own: Mapping[Any, Any] = {old: tirx.Var(old.name, old.ty) for old in _list_variables(loop)}
    block = realize.block
    loads = {load.source: load for load in list_within(store.value, tvm.ir.TensorLoad)}
    reads = [each for each in block.reads if loads.pop(each.source, None) is not None]
    reads += [_point(load.source, load.indices) for load in loads.values()]
    variables = [tirx.IterVar(each.dom, to_own[each.var], each.iter_type) for each in block.iter_vars]
    changed = change_block(
        block,
        iter_vars=variables,
        reads=[substitute(each, to_own) for each in reads],
        writes=[substitute(_point(store.buffer, store.indices), to_own)],
        name_hint=f"{block.name_hint}_{store.buffer.name}",
        body=substitute(store, to_own),
    )
    values = [substitute(value, to_own) for value in realize.iter_values]
    body = s_tir.SBlockRealize(values, substitute(realize.predicate, to_own), changed)
    return tirx.For(to_own[loop.loop_var], loop.min, loop.extent, loop.kind, body, annotations=loop.annotations)


def _point(buffer: Any, indices: Sequence[Any]) -> tirx.BufferRegion:
    """Return the region of one element."""
    one = tirx.IntImm(str(indices[0].ty.dtype), 1)
    return tirx.BufferRegion(buffer, [tvm.ir.Range.from_min_extent(index, one) for index in indices])


def _list_variables(loop: tirx.For) -> list[Any]:
    return [loop.loop_var, *(each.var for each in loop.body.block.iter_vars)]


def _is_function(call: tvm.ir.Call) -> bool:
    return _name(call).removeprefix("tirx.") in FUNCTIONS


def _name(call: tvm.ir.Call) -> str:
    return str(getattr(call.op, "name", ""))
