"""Tiles that do not divide an axis: the last tile begins early enough to end with the axis.

The last tile computes some elements a second time, with the same values. It needs no branch and no remainder loop.
Its operands must still be there: TVM's StorageRewrite would store the results in their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx

from tvmbuild.compiler.ir.expressions import int64, substitute
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import change_block, list_blocks, list_nodes

_OVERLAPS = "tvmbuild.overlaps"
_IN_TILE = (tirx.ForKind.UNROLLED, tirx.ForKind.VECTORIZED)


def allow_overlap(sch: s_tir.Schedule, blocks: Iterable[Any]) -> None:
    """Allow tiles of these blocks to overlap: an element of two tiles is computed twice, with the same result.

    Until ``overlap_tiles`` runs, each element of a tile is guarded by a condition instead, which is far slower.
    """
    for block in blocks:
        sch.annotate(block, _OVERLAPS, 1)


def overlap_tiles(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Move the last tile of each block with `allow_overlap` back until it is whole, and drop the guards."""
    return map_prim_funcs(mod, _overlap)


def keep_operands(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Forbid TVM's StorageRewrite to give results of overlapping tiles the memory of their operands.

    An element of two tiles is read by the second one after the first one has written its result.
    """
    return map_prim_funcs(mod, _keep)


def keep_apart(statement: Any) -> Any:
    """Return the statement so that TVM's StorageRewrite gives its result no memory that it reads.

    StorageRewrite treats the inside of this attribute as foreign code, whose order of reads and writes is not known.
    """
    return tirx.AttrStmt(int64(0), "extern_scope", int64(0), statement)


def _keep(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    outside = {getattr(each, "buffer", each) for each in function.params}

    def visit(block: s_tir.SBlock, mutator: Any) -> s_tir.SBlock:
        inner = mutator.default_mutate(block)
        read, written = ({each.source for each in some} - outside for some in (block.reads, block.writes))
        passes_on = _OVERLAPS in block.annotations and read and written and not read & written
        return change_block(inner, body=keep_apart(inner.body)) if passes_on else inner

    if not any(_OVERLAPS in each.annotations for each in list_blocks(function)):
        return None
    return function.with_body(tvm_ffi.structural_mutate(function.body, [(s_tir.SBlock, visit)]))


def _overlap(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    if not any(_OVERLAPS in each.annotations for each in list_blocks(function)):
        return None
    body = tvm_ffi.structural_map(function.body, (s_tir.SBlockRealize, _Loops.of(function).move))
    return function.with_body(body)


@dataclass(frozen=True)
class _Loops:
    """The loops of a function, with the bounds of their variables."""

    analyzer: sym.Analyzer = field(default_factory=sym.Analyzer)
    first: dict[Any, Any] = field(default_factory=dict)
    """A variable of a loop inside a tile → 0."""
    last: dict[Any, Any] = field(default_factory=dict)
    """A variable of a loop inside a tile → its last value."""

    @classmethod
    def of(cls, function: tirx.PrimFunc) -> _Loops:
        loops = cls()
        for loop in list_nodes(function, tirx.For):
            loops.analyzer.bind(loop.loop_var, tvm.ir.Range.from_min_extent(loop.min, loop.extent))
            if loop.kind in _IN_TILE:
                loops.first[loop.loop_var] = tirx.const(0, loop.loop_var.ty.dtype)
                loops.last[loop.loop_var] = loop.extent - 1
        return loops

    def move(self, realize: s_tir.SBlockRealize) -> s_tir.SBlockRealize:
        """Return the block with its last tile moved back and without guards, if its tiles may overlap."""
        block = realize.block
        if _OVERLAPS not in block.annotations:
            return realize
        values, guards = [], _list_guards(realize.predicate)
        for value, var in zip(realize.iter_values, block.iter_vars, strict=True):
            extent = var.dom.extent
            guard = next((each for each in guards if self._keeps_inside(each, value, extent)), None)
            if guard is not None:
                guards.remove(guard)
            values.append(value if guard is None else self._clamp(value, extent))
        predicate = tirx.all(*guards) if guards else True
        return s_tir.SBlockRealize(values, predicate, block, realize.span)

    def _keeps_inside(self, guard: Any, value: Any, extent: Any) -> bool:
        if not isinstance(guard, tirx.LT) or not self.analyzer.can_prove_equal(guard.b, extent):
            return False
        return bool(self.analyzer.can_prove_equal(guard.a, value))

    def _clamp(self, value: Any, extent: Any) -> Any:
        """Return the value with its tile moved back if the tile would end beyond the extent."""
        begin = self.analyzer.simplify(substitute(value, self.first))
        end = self.analyzer.simplify(substitute(value, self.last) + 1)
        size = self.analyzer.simplify(end - begin)
        return tirx.min(begin, extent - size) + self.analyzer.simplify(value - begin)


def _list_guards(predicate: Any) -> list[Any]:
    if isinstance(predicate, tirx.And):
        return [*_list_guards(predicate.a), *_list_guards(predicate.b)]
    return [predicate]
