"""Converters of reductions over axes: sums, maxima and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.importing.expand.infinities import MEETS_INFINITIES
from tvmbuild.compiler.ir.expressions import constant

_OF_NOTHING = {
    "ReduceL1": 0.0,
    "ReduceL2": 0.0,
    "ReduceLogSum": -np.inf,
    "ReduceLogSumExp": -np.inf,
    "ReduceMax": -np.inf,
    "ReduceMean": np.nan,
    "ReduceMin": np.inf,
    "ReduceProd": 1.0,
    "ReduceSum": 0.0,
    "ReduceSumSquare": 0.0,
}
REDUCTIONS = tuple(_OF_NOTHING)
_OF_EACH: Mapping[str, Callable[[relax.Expr], relax.Expr]] = {
    "ReduceL1": relax.op.abs,
    "ReduceL2": relax.op.abs,
    "ReduceLogSum": relax.op.log,
    "ReduceSumSquare": relax.op.square,
}
"""The functions of single elements that remain if no axis is reduced."""


def _greater(left: Any, right: Any) -> Any:
    return tirx.max(left, right)


def _less(left: Any, right: Any) -> Any:
    return tirx.min(left, right)


_EXTREMES = {"ReduceMax": (_greater, -np.inf), "ReduceMin": (_less, np.inf)}


def convert_reduction(call: NodeCall) -> relax.Expr:
    """Convert a reduction over axes, for example ReduceSum.

    The reduction of no elements has the value that ONNX defines; TVM leaves its memory unwritten. Booleans are reduced
    as int8.
    """
    axes = _find_axes(call)
    if axes is None:
        return call.by_tvm()
    if any(call.shape[axis] == 0 for axis in axes):
        return _of_nothing(call, axes)
    if not axes and call.operator in _OF_EACH and "float" in call.dtype:
        return _OF_EACH[call.operator](call.data)
    if call.dtype == "bool":
        reduce = relax.op.max if call.operator == "ReduceMax" else relax.op.min
        numbers = call.emit(relax.op.astype, call.data, "int8")
        reduced = call.emit(reduce, numbers, list(axes), call.keeps_dimensions)
        return relax.op.astype(reduced, "bool")
    if call.operator in _EXTREMES and "float" in call.dtype and axes and call.attributes.get(MEETS_INFINITIES):
        keep, name = call.keeps_dimensions, call.operator.removeprefix("Reduce").lower()
        return call.builder.emit_te(_reduce_floats, call.data, call.operator, axes, keep, primfunc_name_hint=name)
    return call.by_tvm()


def _reduce_floats(data: te.Tensor, operator: str, axes: tuple[int, ...], keep: bool) -> te.Tensor:
    """Return the maximum or the minimum over axes as a TE computation that starts from an infinity.

    TVM starts from the largest finite number, which is then also the result for a row of infinities. Rows without
    infinities keep TVM's reduction, because schedules and records exist for it.
    """
    combine, first = _EXTREMES[operator]
    reduce = te.comm_reducer(combine, lambda dtype: tirx.const(first, dtype), name="extreme")
    loops = [te.reduce_axis((0, data.shape[axis]), name=f"k{axis}") for axis in axes]
    kept = [axis for axis in range(len(data.shape)) if keep or axis not in axes]

    def element(*at: Any) -> Any:
        place = dict(zip(kept, at, strict=True)) | dict(zip(axes, loops, strict=True))
        return reduce(data[tuple(place[axis] for axis in range(len(data.shape)))], axis=loops)

    return te.compute([1 if axis in axes else data.shape[axis] for axis in kept], element, name="extreme")


def _find_axes(call: NodeCall) -> tuple[int, ...] | None:
    """Return the reduced axes, an empty tuple if nothing is reduced, or None if the axes depend on data."""
    rank = len(call.shape)
    given = call.attributes.get("axes")
    if given is None and len(call.inputs) > 1 and call.inputs[1] is not None:
        values = call.values(1)
        if values is None:
            return None
        given = values.reshape(-1).tolist()
    if not given:
        return () if call.attributes.get("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(int(axis) % rank for axis in given)


def _of_nothing(call: NodeCall, axes: tuple[int, ...]) -> relax.Expr:
    sizes = enumerate(call.shape)
    shape = [1 if axis in axes else size for axis, size in sizes if call.keeps_dimensions or axis not in axes]
    value, dtype = _OF_NOTHING[call.operator], np.dtype(call.dtype)
    if dtype.kind in "iu" and not np.isfinite(value):
        limits = np.iinfo(dtype)
        value = limits.max if value > 0 else limits.min
    if dtype.kind == "b":
        value = value > 0
    return constant(np.full(shape, value, dtype=dtype))
