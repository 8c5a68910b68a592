"""Transposed convolutions whose phases have windows of different sizes: each phase sums up only its own window.

The rule sees windows as large as the largest one, with weights of 0 where a phase has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import list_nodes, list_within

TAPS = "tvmbuild_taps"
"""The annotation with the number of taps of each phase, for rows and for columns; empty if all phases have equally
many."""


def has_unequal_windows(sch: s_tir.Schedule, block: Any) -> bool:
    """Return whether the phases have windows of different sizes: loops over a window must then not be unrolled."""
    return any(len(taps) for taps in sch.get(block).annotations.get(TAPS, []))


def trim_windows(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """End the loops over a window where the window of the phase ends."""
    return map_prim_funcs(mod, _trim)


def _trim(function: tirx.PrimFunc, _: str) -> tirx.PrimFunc | None:
    extents: dict[Any, Any] = {}
    for realize in list_nodes(function, s_tir.SBlockRealize):
        for axis, taps in enumerate(realize.block.annotations.get(TAPS, [])):
            found = _find_loop(realize, axis) if len(taps) else None
            if found is not None:
                extents[found[0]] = (_look_up([int(each) for each in taps], found[1]), found[1])
    if not extents:
        return None

    def trim(loop: tirx.For) -> tirx.For:
        extent, phase = extents.get(loop.loop_var, (None, None))
        inner = {each.loop_var for each in list_within(loop, tirx.For)}
        if extent is None or loop.kind != tirx.ForKind.SERIAL or inner & set(list_within(phase, tvm.ir.Var)):
            return loop
        return tirx.For(loop.loop_var, loop.min, extent, loop.kind, loop.body, annotations=loop.annotations)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, trim)))


def _find_loop(realize: s_tir.SBlockRealize, axis: int) -> tuple[Any, Any] | None:
    """Return the variable of the loop over the window's rows (``axis`` 0) or columns (1), and the phase.

    Return None for functions of another form. The indices of the output are places and phases of rows, then of columns.
    The indices of the weights are the phases of rows and columns, then the taps of rows and columns.
    """
    block, store = realize.block, realize.block.body
    if not isinstance(store, tirx.BufferStore):
        return None
    values = {var.var: value for var, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    phase = store.indices[2 + 2 * axis]
    for load in list_within(store.value, tvm.ir.TensorLoad):
        if len(load.indices) == len(store.indices) and load.indices[axis].same_as(phase):
            tap = values.get(load.indices[2 + axis])
            return (tap, values[phase]) if isinstance(tap, tvm.ir.Var) and phase in values else None
    return None


def _look_up(taps: Sequence[int], phase: Any) -> Any:
    """Return the number of taps of the phase, as an expression."""
    if len(taps) == 2:
        return int64(taps[0]) + phase * int64(taps[1] - taps[0])
    pairs = list(enumerate(taps))[:-1]
    return reduce(lambda rest, each: tirx.Select(phase == int64(each[0]), int64(each[1]), rest), pairs, int64(taps[-1]))
