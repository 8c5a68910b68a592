"""Converters of operators that read or write at indices."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.importing.bounds.names import INSIDE
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.errors import TvmbuildError

_BOUNDS_AS_INPUTS = 10
"""The first opset in which Slice takes its bounds as inputs."""


def convert_slice(call: NodeCall) -> relax.Expr:
    """Convert Slice, whose bounds are inputs or, before opset 10, attributes."""
    if call.opset < _BOUNDS_AS_INPUTS:
        given = (call.attributes.get(name) for name in ("starts", "ends", "axes"))
        call.inputs[1:] = [None if each is None else constant(np.array(each, dtype=np.int64)) for each in given]
    return call.by_tvm()


def convert_one_hot(call: NodeCall) -> relax.Expr:
    """Convert OneHot; the result has the type of the two values, which TVM reads as doubles.

    If the values are not constant, the result selects between them. Raises TvmbuildError if the depth is not constant.
    """
    depth, values = call.values(1), call.inputs[2]
    if depth is None:
        raise TvmbuildError("its depth depends on data, and a package has fixed shapes", "make its depth a constant")
    call.inputs[1] = constant(np.array(int(depth.reshape(-1)[0]), np.int64))
    if "int" not in call.dtype:
        call.inputs[0] = call.emit(relax.op.astype, call.data, "int64")
    if call.values(2) is not None:
        return relax.op.astype(call.builder.normalize(call.by_tvm()), values.ty.dtype)
    call.inputs[2] = constant(np.array([0, 1], np.int64))
    is_hot = call.emit(relax.op.astype, call.builder.normalize(call.by_tvm()), "bool")
    off, on = (call.emit(relax.op.strided_slice, values, axes=[0], begin=[i], end=[i + 1]) for i in range(2))
    return relax.op.where(is_hot, on, off)


def convert_gather(call: NodeCall) -> relax.Expr:
    """Convert Gather; a Gather of one constant index becomes a slice.

    With ``take``, the index is an argument of the Task, which the tuner measures with random indices: the Task reads
    out of bounds and kills the runner, so that it never gets a record. A slice also fuses into the operators after it.
    """
    data, index = call.inputs[0], call.inputs[1]
    shape, axis = static_shape(data), call.attributes.get("axis", 0)
    if call.attributes.get(INSIDE) and not (isinstance(index, tvm.ir.GenericConst) and index.value.numpy().size == 1):
        return relax.op.take(data, index, axis, mode="wrap")  # OneHotToTake looks for `clip`
    if shape is None or not isinstance(index, tvm.ir.GenericConst) or index.value.numpy().size != 1:
        return call.by_tvm()
    values = index.value.numpy()
    if isinstance(data, tvm.ir.GenericConst) or values.ndim > 1 or shape[axis] == 0:
        return call.by_tvm()
    start, part = int(values.item()) % shape[axis], data
    if shape[axis] > 1:
        part = call.emit(relax.op.strided_slice, data, axes=[axis], begin=[start], end=[start + 1])
    return relax.op.squeeze(part, [axis]) if values.ndim == 0 else part


def convert_split(call: NodeCall) -> relax.Expr:
    """Convert Split; return the data itself if there is one output.

    For one output, TVM's converter returns no tuple, but ConvertLayout and the importer need a tuple.
    """
    return call.data if call.outputs == 1 else call.by_tvm()


def convert_max_unpool(call: NodeCall) -> relax.Expr:
    """Convert MaxUnpool; raise TvmbuildError for ``output_shape``.

    With ``output_shape``, TVM writes to other places than the indices mean.
    """
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        raise TvmbuildError("its `output_shape` is not supported", "export it without")
    return call.by_tvm()
