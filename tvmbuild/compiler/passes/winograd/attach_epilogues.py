"""Epilogues of inverse Winograd transforms: the fused operators run on each tile while it is in a near cache."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.ir.prim_funcs import has_block
from tvmbuild.compiler.kernels.winograd.transforms import INVERSE
from tvmbuild.compiler.pass_manager import add_notes
from tvmbuild.compiler.remarks import missed
from tvmbuild.package.metadata import SLOW


def attach_epilogues(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Move the epilogue of every inverse transform into the transform's loop over tiles.

    An epilogue that cannot be moved becomes a separate pass over memory, on all threads, and a note reports it.
    """
    apart: list[str] = []

    def attach(function: tirx.PrimFunc, name: str) -> tirx.PrimFunc | None:
        if not has_block(function, INVERSE):
            return None
        try:
            return _attach(function)
        except s_tir.ScheduleError:
            missed("what follows it cannot be done tile by tile")
            apart.append(f"{SLOW}what follows a Winograd convolution is a pass of its own: {name}")
            return _schedule_apart(function)

    return add_notes(map_prim_funcs(mod, attach), sorted(apart))


def _attach(function: tirx.PrimFunc) -> tirx.PrimFunc:
    sch = s_tir.Schedule(function, error_render_level="none")
    *_, last = sch.get_child_blocks(sch.get_sblock("root"))
    *_, tile, _, _ = sch.get_loops(sch.get_sblock(INVERSE))
    for block in _list_operands(sch, last):
        sch.compute_inline(block)
    sch.reverse_compute_at(last, tile)
    _, near = sch.split(sch.get_loops(last)[-1], [None, _count_lanes(sch)])
    sch.vectorize(near)
    return sch.mod["main"].with_attrs(dict(function.attrs))


def _schedule_apart(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Run each block of the epilogue on all threads, in vectors."""
    sch = s_tir.Schedule(function, error_render_level="none")
    *_, last = sch.get_child_blocks(sch.get_sblock("root"))
    for block in (*_list_operands(sch, last), last):
        far, near = sch.split(sch.fuse(*sch.get_loops(block)), [None, _count_lanes(sch)])
        sch.parallel(far)
        sch.vectorize(near)
    return sch.mod["main"].with_attrs(dict(function.attrs))


def _count_lanes(sch: s_tir.Schedule) -> int:
    return int(sch.get(sch.get_loops(sch.get_sblock(INVERSE))[-1]).extent)


def _list_operands(sch: s_tir.Schedule, last: Any) -> list[Any]:
    """List the blocks that compute ``last``'s operands, in program order, except the transform and the blocks it reads.

    The blocks of a residual with an activation may be before the transform, because they do not depend on it.
    """
    found: set[str] = set()
    left = [last]
    while left:
        names = {str(sch.get(block).name_hint) for block in sch.get_producers(left.pop())}
        left += [sch.get_sblock(name) for name in names - found - {INVERSE}]
        found |= names - {INVERSE}
    return [each for each in sch.get_child_blocks(sch.get_sblock("root")) if str(sch.get(each).name_hint) in found]
