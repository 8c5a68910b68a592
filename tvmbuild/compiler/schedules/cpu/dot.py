"""The schedule of reductions along contiguous memory (means, dot products): a vector's lanes have partial sums."""

from __future__ import annotations

from typing import Any

from tvm import s_tir

from tvmbuild.compiler.machine.machine import Machine, power_of_two_divisor
from tvmbuild.compiler.schedules.attempt import ScheduleRefused
from tvmbuild.compiler.schedules.nest import Axis, Nest, require_nest, run_parallel

REGISTERS = 2
"""The number of registers of partial sums: more of them hide the latency of an addition, but cost more to add up."""


def schedule_dot(sch: s_tir.Schedule, block: Any, machine: Machine) -> None:
    """Schedule a reduction in vectors along the reduced axis; raise ScheduleRefused if it is not along memory."""
    nest = require_nest(sch, block)
    axis = _axis_along_memory(nest)
    if axis is None:
        raise ScheduleRefused("the reduction does not run along memory")
    if nest.store is None or not nest.spatial:
        raise ScheduleRefused("it has one output alone, or stores none")
    if any(access.is_bool for access in (nest.store, *nest.loads)):
        raise ScheduleRefused("it reduces bools")
    width = machine.lanes(nest.bits)
    lanes = power_of_two_divisor(axis.extent, REGISTERS * width)
    if lanes < 4 or lanes * 4 < width:
        raise ScheduleRefused(f"a reduction of {axis.extent} elements makes no whole vectors")
    rows = [each.loop for each in nest.spatial]
    sums = [each.loop for each in nest.reduced if each is not axis]
    far, near = sch.split(axis.loop, [None, lanes])
    sch.reorder(*rows, *sums, far, near)
    partial = sch.rfactor(near, len(nest.store.indices))
    rows = sch.get_loops(block)[: len(rows)]
    sch.compute_at(partial, rows[-1])
    inner = sch.get_loops(partial)[len(rows) :]
    # compute_at reorders the loops: lanes come first or last, as in the block's variables.
    lane = next(loop for loop in inner if int(sch.get(loop).extent) == lanes and not _reduces(sch, partial, loop))
    others = [loop for loop in inner if loop is not lane]
    if others:
        sch.reorder(*others, lane)
    sch.vectorize(lane)
    run_parallel(sch, rows, nest.work, machine)
    if others:
        sch.decompose_reduction(partial, others[0])
    sch.decompose_reduction(block, sch.get_loops(block)[-1])


def _axis_along_memory(nest: Nest) -> Axis | None:
    for axis in reversed(nest.reduced):
        strides = [load.stride(axis.var) for load in nest.loads]
        if 1 in strides and all(stride in {0, 1} for stride in strides):
            return axis
    return None


def _reduces(sch: s_tir.Schedule, block: Any, loop: Any) -> bool:
    """Return whether the loop belongs to the block's reduction, by the block variable that is bound to the loop."""
    from tvm.s_tir.dlight.analysis.common_analysis import get_sblockrealize  # noqa: PLC0415 - not exported

    realize = get_sblockrealize(sch, block)
    var = sch.get(loop).loop_var
    for iteration, value in zip(sch.get(block).iter_vars, realize.iter_values, strict=True):
        if value.same_as(var):
            return bool(iteration.iter_type == iteration.CommReduce)
    return True
