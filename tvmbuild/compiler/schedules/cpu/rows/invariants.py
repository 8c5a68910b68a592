"""Values that are constant along a row, computed once for each row; a division by one becomes a multiplication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.schedules.access import Access, collect, uses
from tvmbuild.compiler.schedules.cpu.rows.view import Pass, Rows

_BRANCHES = frozenset({"prim.if_then_else", "prim.likely"})


def compute_once(rows: Rows) -> Rows:
    """Return the rows with new passes, which compute the parts of passes that are constant along a row once a row."""
    passes: list[Pass] = []
    for each in rows.passes:
        passes += _split(rows, each) if each.along else [each]
    return replace(rows, passes=tuple(passes))


def _split(rows: Rows, each: Pass) -> list[Pass]:
    made: list[Pass] = []
    along = [var for var, axis in each.axes.items() if axis in rows.columns]

    def varies(expr: Any) -> bool:
        return any(uses(expr, var) for var in along)

    def keep(value: Any) -> Any:
        kept = tirx.decl_buffer(tuple(map(int64, _row_extents(rows))), str(value.ty.dtype), "kept")
        at = tuple(_row_vars(rows, each.axes))
        axes = {var: axis for var, axis in each.axes.items() if axis in rows.rows}
        made.append(Pass(axes, each.idle, Access(kept, at), value, along=False, bits=each.bits))
        return kept[at]

    def on_call(call: Any) -> Any:
        plain = str(getattr(call.op, "name", "")) not in _BRANCHES and collect(call).loads
        return keep(call) if plain and not varies(call) else call

    def on_division(division: Any) -> Any:
        exact = "float" not in str(division.ty.dtype) or not collect(division.b).loads
        if exact or varies(division.b) or not varies(division.a):
            return division
        return division.a * keep(tirx.const(1.0, str(division.ty.dtype)) / division.b)

    value = tvm_ffi.structural_map(each.value, [(tvm.ir.Call, on_call), (tirx.Div, on_division)])
    return [*made, replace(each, value=value)]


def _row_extents(rows: Rows) -> list[int]:
    return [rows.extents[axis] for axis in rows.rows] or [1]


def _row_vars(rows: Rows, axes: Mapping[Any, int]) -> list[Any]:
    by_axis = {axis: var for var, axis in axes.items()}
    return [by_axis[axis] for axis in rows.rows] or [int64(0)]
