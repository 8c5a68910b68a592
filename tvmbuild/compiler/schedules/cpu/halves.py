"""Long sums of float16 products: partial sums in float16, at the CPU's full speed, are added up in float32.

No instruction multiplies float16 and adds to float32: a model whose operands are converted first is slower than it was
in float32. A sum in float16 alone loses terms that are small beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvmbuild.compiler.ir.expressions import substitute
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import change_block, list_nodes, list_within
from tvmbuild.compiler.machine.machine import Machine, divisors
from tvmbuild.compiler.schedules.access import Access
from tvmbuild.compiler.schedules.nest import Nest

LONGEST_SUM = 64
"""The largest number of products that are added up in float16.

A sum of products of one sign is then wrong by at most a third of a percent; with 2,048 products, it is wrong by 5 %.
"""
FEWEST = 8
"""The smallest number of products that are added up in float16: with fewer, adding up the partial sums takes as long
as the products."""
_PARTIAL, _NARROW, _WIDE = "tvmbuild_partial", "float16", "float32"


def adds_up_halves(sch: s_tir.Schedule, nest: Nest, machine: Machine) -> bool:
    """Return whether the block is a sum in float32 of float16 products, and the CPU computes in float16."""
    return machine.halves and bool(_find_factors(sch.get(nest.block).body))


def view_narrow(nest: Nest) -> Nest:
    """Return the nest with a float16 output: the dtype of the sums in its register tile."""
    if nest.store is None:
        return nest
    return replace(nest, store=Access(tirx.decl_buffer(nest.store.shape, _NARROW), nest.store.indices))


def split_sum(sch: s_tir.Schedule, loops: Sequence[Any]) -> list[Any]:
    """Annotate the innermost loops of a sum to compute partial sums; return all loops of the sum, outermost first.

    The annotated loops have at most `LONGEST_SUM` steps together; one loop is split if needed. If they would have fewer
    than `FEWEST` steps, nothing is annotated, and the sums stay in float32.
    """
    extents = [int(sch.get(loop).extent) for loop in loops]
    inside = next(at for at in range(len(loops) + 1) if math.prod(extents[at:]) <= LONGEST_SUM)
    whole = math.prod(extents[inside:])
    part = max(divisors(extents[inside - 1], LONGEST_SUM // whole)) if inside else 1
    if part * whole < FEWEST:
        return list(loops)
    found = list(loops)
    if part > 1:
        found[inside - 1 : inside] = sch.split(loops[inside - 1], [None, part])
        inside = len(found) - (len(loops) - inside) - 1
    sch.annotate(found[inside], _PARTIAL, part * whole)
    return found


def add_up_halves(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Compute float16 partial sums in the loops that `split_sum` annotated, and add them up in float32."""
    return map_prim_funcs(mod, _rewrite)


def _rewrite(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    loops = [each for each in list_nodes(function, tirx.For) if _PARTIAL in each.annotations]
    if not loops:
        return None
    partials = {each.loop_var: found for each in loops if (found := _Partial.of(each)) is not None}
    made = {each.wide: each.narrow for each in partials.values()}

    def rewrite(loop: tirx.For) -> Any:
        if _PARTIAL not in loop.annotations:
            return loop
        found = partials.get(loop.loop_var)
        plain = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, span=loop.span)
        return plain if found is None else found.rewrite(plain)

    def allocate(block: s_tir.SBlock) -> s_tir.SBlock:
        more = [made[each] for each in block.alloc_buffers if each in made]
        return change_block(block, alloc_buffers=[*block.alloc_buffers, *more]) if more else block

    body = tvm_ffi.structural_map(function.body, [(tirx.For, rewrite), (s_tir.SBlock, allocate)])
    return function.with_body(body)


@dataclass(frozen=True)
class _Partial:
    """A loop that updates sums: the buffer ``wide`` of the sums, and the buffer ``narrow`` of float16 partial sums."""

    realize: s_tir.SBlockRealize
    tile: tuple[tirx.For, ...]
    """The loops inside this loop that do not belong to the sum, outermost first."""
    wide: Any
    narrow: Any

    @classmethod
    def of(cls, loop: tirx.For) -> _Partial | None:
        """Describe the loop of a sum of float16 products; return None if it no longer has this form."""
        realizes = list_within(loop.body, s_tir.SBlockRealize)
        if len(realizes) != 1 or not _find_factors(realizes[0].block.body):
            return None
        (realize,) = realizes
        reduced = [value for value, var in _list_variables(realize) if var.iter_type == tirx.IterVar.CommReduce]
        others = [value for value, var in _list_variables(realize) if var.iter_type != tirx.IterVar.CommReduce]
        inner, body = [loop], loop.body
        while isinstance(body, tirx.For):
            inner.append(body)
            body = body.body
        of_sum = {each.loop_var for each in inner if _uses(reduced, each.loop_var)}
        tile = tuple(each for each in inner if each.loop_var not in of_sum)
        if not body.same_as(realize) or not all(_uses([*others, realize.predicate], each) is False for each in of_sum):
            return None
        wide = realize.block.body.buffer
        narrow = tirx.decl_buffer(wide.shape, _NARROW, f"{wide.name}_partial", scope=wide.scope())
        return cls(realize, tile, wide, narrow)

    def rewrite(self, loop: tirx.For) -> tirx.SeqStmt:
        """Return the loop with partial sums, between statements that set them to 0 and that add them up."""
        store = self.realize.block.body
        zero = tirx.BufferStore(self.narrow, tirx.const(0, _NARROW), store.indices)
        sums = self.wide[tuple(store.indices)] + tirx.Cast(_WIDE, self._load())
        add = tirx.BufferStore(self.wide, sums, store.indices)
        places = self.realize.block.writes[0].region
        wide, narrow = (tirx.BufferRegion(each, places) for each in (self.wide, self.narrow))
        update = tvm_ffi.structural_map(loop, (s_tir.SBlock, self._narrow_down))
        return tirx.SeqStmt(
            [self._repeat("zero", zero, [], [narrow]), update, self._repeat("add", add, [wide, narrow], [wide])]
        )

    def _load(self) -> Any:
        return self.narrow[tuple(self.realize.block.body.indices)]

    def _narrow_down(self, block: s_tir.SBlock) -> s_tir.SBlock:
        """Return the block changed so that it updates the partial sums."""
        a, b = _find_factors(block.body)
        store = tirx.BufferStore(self.narrow, self._load() + a * b, block.body.indices)
        own = tirx.BufferRegion(self.narrow, block.writes[0].region)
        reads = [own if each.source.same_as(self.wide) else each for each in block.reads]
        return change_block(block, reads=reads, writes=[own], body=store)

    def _repeat(self, name: str, store: Any, reads: list[Any], writes: list[Any]) -> Any:
        """Return the store as a block in new loops, one for each loop of the tile."""
        kept = [
            (value, var) for value, var in _list_variables(self.realize) if var.iter_type != tirx.IterVar.CommReduce
        ]
        variables = [tirx.IterVar(var.dom, tirx.Var(var.var.name, var.var.ty), var.iter_type) for _, var in kept]
        to_own = {old.var: new.var for (_, old), new in zip(kept, variables, strict=True)}
        block = s_tir.SBlock(variables, reads, writes, f"{self.realize.block.name_hint}_{name}", store)
        block = change_block(
            block, **{part: substitute(getattr(block, part), to_own) for part in ("reads", "writes", "body")}
        )
        loops = {each.loop_var: tirx.Var(each.loop_var.name, each.loop_var.ty) for each in self.tile}
        values = [substitute(value, loops) for value, _ in kept]
        body: Any = s_tir.SBlockRealize(values, substitute(self.realize.predicate, loops), block)
        for each in reversed(self.tile):
            body = tirx.For(loops[each.loop_var], each.min, each.extent, each.kind, body)
        return body


def _find_factors(body: Any) -> tuple[Any, ...]:
    """Return the float16 factors whose products a sum in float32 adds up, or an empty tuple for other statements."""
    value = body.value if isinstance(body, tirx.BufferStore) else None
    if not isinstance(value, tirx.Add) or not isinstance(value.a, tvm.ir.TensorLoad):
        return ()
    if not value.a.source.same_as(body.buffer) or str(body.buffer.dtype) != _WIDE or not isinstance(value.b, tirx.Mul):
        return ()
    factors = value.b.a, value.b.b
    is_narrow = all(isinstance(each, tirx.Cast) and str(each.value.ty.dtype) == _NARROW for each in factors)
    return tuple(each.value for each in factors) if is_narrow else ()


def _list_variables(realize: s_tir.SBlockRealize) -> list[tuple[Any, tirx.IterVar]]:
    return list(zip(realize.iter_values, realize.block.iter_vars, strict=True))


def _uses(values: Sequence[Any], var: Any) -> bool:
    return any(each.same_as(var) for value in values for each in list_within(value, tvm.ir.Var))
