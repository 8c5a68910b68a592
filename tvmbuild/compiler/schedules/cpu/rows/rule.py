"""The rule for functions that go row by row: it marks the function, and a pass writes its loops before code generation.

TVM's schedule primitives cannot write vectors for rows of any length. A record of this rule contains only the mark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvmbuild.compiler.ir.modules import map_prim_funcs
from tvmbuild.compiler.machine.machine import Machine, describe_machine, power_of_two_divisor
from tvmbuild.compiler.schedules.access import Access, collect
from tvmbuild.compiler.schedules.attempt import ScheduleRefused
from tvmbuild.compiler.schedules.cpu.rows.across import Across
from tvmbuild.compiler.schedules.cpu.rows.along import Along
from tvmbuild.compiler.schedules.cpu.rows.invariants import compute_once
from tvmbuild.compiler.schedules.cpu.rows.view import Pass, Rows, view_rows

MARK = "tvmbuild.rows"
SHORT = 8
"""The smallest number of elements in a row: in shorter rows, combining the lanes of a vector takes longer than scalar
code."""
_ROOT = "root"


def schedule_rows(sch: s_tir.Schedule, machine: Machine) -> None:
    """Mark a function that goes row by row: softmax, normalisation, and the operators that are fused to them.

    Raises ScheduleRefused if the function does not go row by row, or if other rules are as good.
    """
    rows = view_rows(sch)
    if rows is None:
        raise ScheduleRefused("it does not go through rows")
    if not _is_worth_it(rows, machine):
        raise ScheduleRefused("its rows are short, or other rules handle its one reduction equally well")
    sch.annotate(sch.get_sblock(_ROOT), MARK, 1)


def expand_rows(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Write the loops of the functions that `schedule_rows` has marked."""
    machine = describe_machine(target)
    return map_prim_funcs(mod, lambda function, _: _expand(function, machine) if _is_marked(function) else None)


def _is_worth_it(rows: Rows, machine: Machine) -> bool:
    reductions = [each for each in rows.passes if each.combine]
    if not all(_runs_in_order(each, rows.vector) for each in reductions):
        return False
    if rows.count(rows.columns) < SHORT:
        return False
    if len(reductions) > 1 or any(each.along and not each.combine for each in rows.passes):
        return True
    if not rows.across and _is_infinite(reductions[0].identity):
        return True  # TVM's rfactor, which `schedule_dot` uses, knows maxima that begin with the smallest number only
    width, loads = machine.lanes(reductions[0].bits), collect(reductions[0].value).loads
    is_product = any(not _are_equal(load, loads[0]) for load in loads)
    return not (rows.across or is_product) and power_of_two_divisor(rows.extents[rows.vector], width) < width


def _is_infinite(identity: Any) -> bool:
    return isinstance(identity, tirx.FloatImm) and math.isinf(identity.value)


def _are_equal(load: Access, other: Access) -> bool:
    same = (tvm_ffi.structural_equal(a, b) for a, b in zip(load.indices, other.indices, strict=False))
    return load.buffer.same_as(other.buffer) and all(same)


def _runs_in_order(each: Pass, vector: int) -> bool:
    variable = next(var for var, axis in each.axes.items() if axis == vector)
    return all(load.stride(variable) in {0, 1} for load in collect(each.value).loads)


def _is_marked(function: tirx.PrimFunc) -> bool:
    return isinstance(function.body, s_tir.SBlockRealize) and MARK in function.body.block.annotations


def _expand(function: tirx.PrimFunc, machine: Machine) -> tirx.PrimFunc:
    rows = view_rows(s_tir.Schedule(tvm.ir.IRModule({"main": function})))
    if rows is None:
        raise ValueError(f"a function is marked {MARK}, and does not go row by row")
    body = write_rows(rows, [getattr(each, "buffer", each) for each in function.params], machine)
    root = s_tir.SBlock([], [], [], _ROOT, body)
    return function.with_body(s_tir.SBlockRealize([], True, root))


# The loops of a function that goes row by row. The length of vectors is a power of two. One more vector computes the
# rest of a row and ends where the row ends: elements that were computed are computed again, and add nothing to a sum.


def write_rows(rows: Rows, parameters: Sequence[Any], machine: Machine) -> Any:
    """Return the loops of a function as a statement; ``parameters`` are the buffers of the function's arguments."""
    whole = compute_once(rows)
    writer = Across(whole, parameters, machine) if rows.across else Along(whole, parameters, machine)
    return writer.write()
