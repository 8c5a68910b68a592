"""What was fused to an inverse Winograd transform, done to each tile while it is in the nearest cache."""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx

from tvmbuild.compiler.graph.winograd.transforms import INVERSE
from tvmbuild.compiler.modules import map_prim_funcs
from tvmbuild.compiler.prim_funcs import has_block


def attach_epilogues(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module with this done to every function that an inverse transform was fused into."""
    return map_prim_funcs(mod, lambda function, _: _attach(function) if has_block(function, INVERSE) else None)


def _attach(function: tirx.PrimFunc) -> tirx.PrimFunc:
    sch = s_tir.Schedule(function)
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    names = [str(sch.get(block).name_hint) for block in blocks]
    inverse, *others, last = blocks[names.index(INVERSE) :]
    *_, tile, _, lane = sch.get_loops(inverse)
    lanes = int(sch.get(lane).extent)
    for block in others:
        sch.compute_inline(block)
    sch.reverse_compute_at(last, tile)
    _, near = sch.split(sch.get_loops(last)[-1], [None, lanes])
    sch.vectorize(near)
    return sch.mod["main"].with_attrs(dict(function.attrs))
