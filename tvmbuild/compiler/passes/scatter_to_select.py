"""A selection in place of a ScatterND that writes one row into a cache of keys or values: one pass over the cache.

ScatterND writes along the first axis. Exporters therefore transpose the axis of the tokens to the front and back, which
makes three passes.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.rewrite import DROP_UNUSED, rewrite_calls
from tvmbuild.compiler.remarks import missed


def scatter_to_select(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Replace each write of one row by a selection between the row and the cache, in the layout before a transpose."""
    if not operator_calls(mod, "relax.scatter_nd"):
        return mod
    return rewrite_calls(mod, _rewrite, DROP_UNUSED)


def _rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    if is_call(call, "relax.scatter_nd"):
        return _select(builder, call)
    if not is_call(call, "relax.permute_dims"):
        return None
    before = resolve(builder.lookup_binding, call.args[0])
    if not is_call(before, "relax.permute_dims"):
        return None
    order = [_axes(before)[axis] for axis in _axes(call)]
    return before.args[0] if order == sorted(order) else None  # the transposes cancel


def _select(builder: relax.BlockBuilder, scatter: relax.Call) -> relax.Expr | None:
    data, cell, row = scatter.args
    shape = static_shape(data)
    if scatter.attrs.reduction != "update":
        return missed(f"it does not write: its reduction is {scatter.attrs.reduction}")
    if shape is None or static_shape(cell) != (1, 1):
        return missed(f"it writes at indices of the shape {static_shape(cell)}, not at one of the first axis")
    before = resolve(builder.lookup_binding, data)
    order, cache = [*range(len(shape))], data
    if is_call(before, "relax.permute_dims"):
        order, cache = _axes(before), before.args[0]
    back = [order.index(axis) for axis in range(len(order))]
    emit = builder.emit
    place = [1] * len(shape)
    place[order[0]] = shape[0]
    cells = constant(np.arange(shape[0], dtype=str(cell.ty.dtype)).reshape(place))
    chosen = emit(relax.op.equal(cells, emit(relax.op.reshape(cell, [1] * len(shape)))))
    written = relax.op.where(chosen, emit(relax.op.permute_dims(row, back)), cache)
    return written if order == sorted(order) else relax.op.permute_dims(emit(written), order)


def _axes(transpose: relax.Call) -> list[int]:
    """Return, for each axis of the transpose's result, the axis of its operand."""
    rank = len(transpose.ty.shape)
    axes = transpose.attrs.axes
    return [int(axis) % rank for axis in axes] if axes is not None else [*range(rank)][::-1]
