"""A schedule rule for GPUs: a thread for each output of blocks that hold loops of their own, such as RoiAlign's.

DLight has no schedule for reductions whose number of steps is read from the data.
"""

from __future__ import annotations

from tvm import s_tir, tirx

from tvmbuild.compiler.ir.prim_funcs import list_blocks
from tvmbuild.compiler.schedules.attempt import ScheduleRefused, try_rule

_THREADS = 128


def list_outer_blocks(function: tirx.PrimFunc) -> list[s_tir.Schedule]:
    """Return the schedule, or an empty list if no block holds another one or one of the outer ones is a reduction."""
    schedule = try_rule(bind_outer_blocks, function)
    return [] if schedule is None else [schedule]


def bind_outer_blocks(function: tirx.PrimFunc) -> s_tir.Schedule:
    """Return the schedule; raises ScheduleRefused if the function has another form."""
    sch = s_tir.Schedule(function)
    outer = sch.get_child_blocks(sch.get_sblock("root"))
    if len(list_blocks(function)) <= len(outer) + 1:
        raise ScheduleRefused("no block holds another one")
    for block in outer:
        if any(each.iter_type != tirx.IterVar.DataPar for each in sch.get(block).iter_vars):
            raise ScheduleRefused("an outer block is a reduction")
        blocks, threads = sch.split(sch.fuse(*sch.get_loops(block)), [None, _THREADS])
        sch.bind(blocks, "blockIdx.x")
        sch.bind(threads, "threadIdx.x")
    return sch
