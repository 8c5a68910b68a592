"""Weights that come from memory are asked for while the tiles before them are computed.

All rows go past a panel of the weights, as wide as a tile. The first tile of rows would wait for each of its lines; so
each step of the tiles before, those of another panel, asks for a line.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx

from tvmbuild.compiler.expressions import int64, substitute
from tvmbuild.compiler.modules import map_prim_funcs
from tvmbuild.compiler.prim_funcs import list_nodes, list_within

_PREFETCH = "tvmbuild.prefetch"
_LINE_BITS = 512
_READ, _SECOND_LEVEL, _DATA = (tirx.IntImm("int32", number) for number in (0, 2, 1))
"""How LLVM's `llvm.prefetch` has it."""
FEWEST_STEPS = 2
"""Steps of a sum for each line: with fewer rows, asking would take as long as waiting."""
MOST_TURNS = 64
"""Tiles of rows that go past a panel: among more, the first one's waiting is nothing."""


def ask_for_prefetch(sch: s_tir.Schedule, summed: Any) -> None:
    """Let the steps of that loop of a sum ask for the panel after the one that they read."""
    sch.annotate(summed, _PREFETCH, 1)


def prefetch_panels(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Put the instructions into the loops that ask for them."""
    return map_prim_funcs(mod, _add)


def _add(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    loops = list_nodes(function, tirx.For)
    wanted = {loop.loop_var: _write(loop, loops) for loop in loops if _PREFETCH in loop.annotations}
    if not wanted:
        return None

    def add(loop: tirx.For) -> tirx.For:
        if loop.loop_var not in wanted:
            return loop
        asking = wanted[loop.loop_var]
        body = loop.body if asking is None else tirx.SeqStmt([asking, loop.body])
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, span=loop.span)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, add)))


def _write(loop: tirx.For, loops: list[tirx.For]) -> Any:
    """Return what a step of the sum does; None where the loop reads no panel of packed weights."""
    inner = {each.loop_var: int64(0) for each in list_within(loop.body, tirx.For)}
    outer = [each for each in loops if any(other.same_as(loop) for other in list_within(each.body, tirx.For))]
    realizes = list_within(loop.body, s_tir.SBlockRealize)
    if len(realizes) != 1:  # no schedule of ours
        return None
    (realize,) = realizes
    values = {var.var: value for var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    analyzer = sym.Analyzer()
    for each in (loop, *outer):
        analyzer.bind(each.loop_var, tvm.ir.Range.from_min_extent(each.min, each.extent))
    for load in list_within(realize.block.body, tvm.ir.TensorLoad):
        first = analyzer.simplify(substitute(substitute(load.indices[0], values), inner))
        panel = next((each for each in outer if each.loop_var.same_as(first)), None)
        if panel is not None and len(load.indices) == 3:
            others = [each for each in outer if not each.same_as(panel)]
            return _ask(load.source, panel.loop_var, others, loop)
    return None


def _ask(weights: Any, panel: Any, others: list[tirx.For], loop: tirx.For) -> Any:
    """Return the instruction for a step of ``loop``; each turn of the ``others`` asks for lines of its own."""
    _, steps, width = (int(extent) for extent in weights.shape)
    turn, turns = int64(0), 1
    for each in others:
        turn, turns = turn * each.extent + each.loop_var, turns * int(each.extent)
    line = _LINE_BITS // int(tvm.DataType(str(weights.dtype)).bits)
    most = turns * line // width
    if most < FEWEST_STEPS or turns > MOST_TURNS:
        return None
    each_line = 1 << most.bit_length() - 1  # a shift; the last turns have nothing left to ask for
    number = turn * int64(-(-steps // each_line)) + loop.loop_var // int64(each_line)
    address = tirx.address_of(weights[panel + int64(1), int64(0), number * int64(line)])
    return tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, _READ, _SECOND_LEVEL, _DATA))
