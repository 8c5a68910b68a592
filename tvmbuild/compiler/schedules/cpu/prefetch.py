"""The prefetch of weights from memory, during the tiles before those that read them.

All rows are multiplied by one panel of the weights, as wide as a tile, before the next panel. The first tile of rows
would wait for each cache line of the panel. The tiles of the previous panel therefore prefetch some of its lines every
few steps of their sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, sym, tirx

from tvmbuild.compiler.ir.expressions import int64, substitute
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_nodes, list_within
from tvmbuild.compiler.machine.machine import divisors

_PREFETCH = "tvmbuild.prefetch"
_LINE_BITS = 512
_READ, _SECOND_LEVEL, _DATA = (tirx.IntImm("int32", number) for number in (0, 2, 1))
"""The operands of LLVM's `llvm.prefetch`: a read, of data, to the second-level cache."""
MIN_STEPS = 2
"""The smallest number of steps of a sum for each prefetched line: with fewer, prefetching takes as long as waiting."""
MAX_TURNS = 64
"""The largest number of tiles of rows for a panel: with more, the wait of the first tile does not matter."""
MIN_TOGETHER, MAX_TOGETHER = 32, 96
"""The smallest and the largest number of steps between two prefetches.

LLVM takes the instruction for one that may write, and stores a tile's sums around it: with AVX-512, prefetching at
every step took twice the time.
"""


def count_steps(turns: int, width: int, bits: int) -> int:
    """Return the number of steps of a sum after which each tile of a panel prefetches a line of the next panel.

    The result is 0 if the tiles are so few, or so many, that prefetching does not pay. ``turns`` is the number of tiles
    of a panel, ``width`` the number of elements in a row of the panel, and ``bits`` the size of an element.
    """
    steps = turns * (_LINE_BITS // bits) // width
    return steps if steps >= MIN_STEPS and turns <= MAX_TURNS else 0


def ask_for_prefetch(sch: s_tir.Schedule, summed: Sequence[Any], steps: int) -> list[Any]:
    """Annotate the loops of a sum to prefetch the next panel of weights; return the loops of the sum.

    A single loop is split, so that the outer one of two loops prefetches.
    ``steps`` is the result of :func:`count_steps`; if it is 0, the loops stay as they are.
    """
    *_, last = summed
    together = int(sch.get(last).extent) if len(summed) > 1 else max(divisors(int(sch.get(last).extent), MAX_TOGETHER))
    if not steps or together < MIN_TOGETHER:
        return list(summed)
    outer, inner = summed if len(summed) > 1 else sch.split(last, [None, together])
    sch.annotate(outer, _PREFETCH, together)
    return [outer, inner]


def prefetch_panels(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Write prefetch instructions into the loops that `ask_for_prefetch` annotated."""
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
        body = tirx.SeqStmt([*asking, loop.body]) if asking else loop.body
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, span=loop.span)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, add)))


def _write(loop: tirx.For, loops: list[tirx.For]) -> list[Any]:
    """Return the prefetches of one step of the loop; an empty list if it reads no panel of packed weights."""
    inner = {each.loop_var: int64(0) for each in list_within(loop.body, tirx.For)}
    outer = [each for each in loops if any(other.same_as(loop) for other in list_within(each.body, tirx.For))]
    realizes = list_within(loop.body, s_tir.SBlockRealize)
    if len(realizes) != 1:  # not one of our schedules
        return []
    (realize,) = realizes
    values = {var.var: value for var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    analyzer = sym.Analyzer()
    for each in (loop, *outer):
        analyzer.bind(each.loop_var, tvm.ir.Range.from_min_extent(each.min, each.extent))
    for load in list_within(realize.block.body, tvm.ir.TensorLoad):
        first = analyzer.simplify(substitute(substitute(load.indices[0], values), inner))
        turn = _find_turn(first, outer)
        if turn is not None and len(load.indices) == 3:
            return _ask(load.source, first, turn, loop)
    return []


def _find_turn(panel: Any, outer: list[tirx.For]) -> tuple[Any, int] | None:
    """Return the index of the tile within its panel, and the number of tiles of a panel.

    Return None if ``panel`` is not the index of a loop. The loop over panels may be fused with the loop over their
    tiles, so that the threads share both.
    """
    is_shared = isinstance(panel, tirx.FloorDiv) and isinstance(panel.b, tirx.IntImm)
    var, tiles = (panel.a, int(panel.b)) if is_shared else (panel, 1)
    if not any(each.loop_var.same_as(var) for each in outer):
        return None
    turn, turns = (tirx.floormod(var, int64(tiles)) if is_shared else int64(0)), tiles
    for each in outer:
        if not each.loop_var.same_as(var):
            turn, turns = turn * each.extent + each.loop_var, turns * int(each.extent)
    return turn, turns


def _ask(weights: Any, panel: Any, tile: tuple[Any, int], loop: tirx.For) -> list[Any]:
    """Return the prefetches of one step of ``loop``; each tile of the panel prefetches other lines.

    ``tile`` is (index of the tile in its panel, number of tiles).
    """
    width, (turn, turns) = int(weights.shape[-1]), tile
    bits = int(tvm.DataType(str(weights.dtype)).bits)
    line, steps, together = _LINE_BITS // bits, count_steps(turns, width, bits), int(loop.annotations[_PREFETCH])
    if not steps:  # the record is older than this condition of the rule
        return []
    lines = -(-together // steps)  # the last steps have no lines left to prefetch
    first = (turn * loop.extent + loop.loop_var) * int64(lines)
    return [_prefetch(weights[panel + int64(1), int64(0), (first + number) * int64(line)]) for number in range(lines)]


def _prefetch(element: Any) -> Any:
    return tirx.Evaluate(
        tirx.call_llvm_intrin("void", "llvm.prefetch", tirx.address_of(element), _READ, _SECOND_LEVEL, _DATA)
    )
