"""Operators that read or write at indices."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tvmbuild.compiler.expressions import constant, static_shape
from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.errors import TvmbuildError

_BOUNDS_AS_INPUTS = 10
"""From this opset on Slice takes where it begins and ends as inputs."""


def convert_slice(call: NodeCall) -> relax.Expr:
    """Slice between bounds that are inputs or, in old files, attributes."""
    if call.opset < _BOUNDS_AS_INPUTS:
        given = (call.attributes.get(name) for name in ("starts", "ends", "axes"))
        call.inputs[1:] = [None if each is None else constant(np.array(each, dtype=np.int64)) for each in given]
    return call.by_tvm()


def convert_one_hot(call: NodeCall) -> relax.Expr:
    """Give the result the type of its two values, which TVM reads as doubles."""
    return relax.op.astype(call.builder.normalize(call.by_tvm()), call.inputs[2].ty.dtype)


def convert_gather(call: NodeCall) -> relax.Expr:
    """Emit a Gather of one known index as a slice.

    As ``take`` the index is an argument of the Task, which is then measured with random indices: it reads out of
    bounds and kills the runner, so that the Task never gets a record. A slice also fuses into what comes after.
    """
    data, index = call.inputs[0], call.inputs[1]
    shape, axis = static_shape(data), call.attributes.get("axis", 0)
    if shape is None or not isinstance(index, tvm.ir.GenericConst) or index.value.numpy().size != 1:
        return call.by_tvm()
    values = index.value.numpy()
    if isinstance(data, tvm.ir.GenericConst) or values.ndim > 1 or shape[axis] == 0:
        return call.by_tvm()
    start, part = int(values.item()) % shape[axis], data
    if shape[axis] > 1:
        part = call.emit(relax.op.strided_slice, data, axes=[axis], begin=[start], end=[start + 1])
    return relax.op.squeeze(part, [axis]) if values.ndim == 0 else part


def refuse_nms(_call: NodeCall) -> relax.Expr:
    """Refuse NonMaxSuppression: TVM's finds nothing, and the shape of what is right is not known before it runs."""
    raise TvmbuildError(
        "how many boxes it keeps depends on the data, and a package has fixed shapes",
        "end the model before it, and suppress boxes in the program (examples/detect shows how)",
    )


def convert_max_unpool(call: NodeCall) -> relax.Expr:
    """Leave to TVM what has no ``output_shape``, with which its indices mean other places than TVM writes to."""
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        raise TvmbuildError("its `output_shape` is not supported", "export it without")
    return call.by_tvm()


def convert_roi_align(call: NodeCall) -> relax.Expr:
    """Refuse the maximum, which TVM takes of other values than ONNX."""
    if call.text("mode", "avg") == "max":
        raise TvmbuildError("its mode `max` is not supported", "use the mode `avg`")
    return call.by_tvm()
