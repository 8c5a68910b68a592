"""Loops and places in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.schedules.cpu.rows.view import Pass, Rows

Place = Mapping[int, Any]
"""Axis → index."""


def put(expr: Any, each: Pass, place: Place) -> Any:
    """Return the expression with the place in its variables' stead; those of one turn are 0."""

    def on_var(var: Any) -> Any:
        if var in each.axes:
            return place[each.axes[var]]
        return int64(0) if var in each.idle else var

    return tvm_ffi.structural_map(expr, [(tvm.ir.Var, on_var)])


def fold(rows: Rows, place: Place) -> Any:
    """Return the number of a place in its row."""
    index: Any = int64(0)
    for axis in rows.columns:
        index = index * rows.extents[axis] + place[axis]
    return index


def unfold(rows: Rows, axes: Sequence[int], index: Any) -> dict[int, Any]:
    """Return the place of which ``index`` is the number."""
    place: dict[int, Any] = {}
    for axis in reversed(axes):
        place[axis] = index % rows.extents[axis]
        index = index // rows.extents[axis]
    return place


def nest_loops(rows: Rows, axes: Sequence[int], place: Place, body: Callable[[Place], Any]) -> Any:
    """Return loops over the axes, outermost first."""
    if not axes:
        return body(place)
    first, *others = axes
    return loop(int64(rows.extents[first]), lambda i: nest_loops(rows, others, {**place, first: i}, body))


def loop(extent: Any, body: Callable[[Any], Any]) -> Any:
    """Return a loop from 0; ``body`` gets its variable."""
    index = variable("i")
    return tirx.For(index, int64(0), extent, tirx.ForKind.SERIAL, body(index))


def vectorized(lanes: int, body: Callable[[Any], Any]) -> Any:
    """Return the body for all lanes of a vector."""
    if lanes == 1:
        return body(int64(0))
    lane = variable("lane")
    return tirx.For(lane, int64(0), int64(lanes), tirx.ForKind.VECTORIZED, body(lane))


def sequence(statements: Sequence[Any]) -> Any:
    """Return the statements as one."""
    return tirx.SeqStmt(list(statements)) if len(statements) > 1 else statements[0]


def local(size: int, like: Any) -> Any:
    """Return a buffer of the function's own, of the other's type."""
    return tirx.decl_buffer((int64(size),), str(like.dtype), str(like.name))


def variable(name: str) -> Any:
    """Return a variable for indices."""
    return tirx.Var(name, "int64")
