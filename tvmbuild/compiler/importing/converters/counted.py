"""The converters of our own operators that find elements or boxes."""

from __future__ import annotations

from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.importing.converters.call import NodeCall
from tvmbuild.compiler.ir.expressions import OPAQUE, static_shape
from tvmbuild.compiler.kernels.counted.positions import POSITIONS, write_positions
from tvmbuild.compiler.kernels.counted.suppression import SUPPRESSION, Suppression, write_suppression
from tvmbuild.errors import TvmbuildError


def convert_positions(call: NodeCall) -> relax.Expr:
    """Return the positions of a vector's true elements, zeros after them, and their number."""
    (size,) = call.shape
    flags = call.emit(relax.op.astype, call.data, "int32")
    sums = call.emit(relax.op.cumsum, flags, axis=0)
    function = call.builder.add_func(write_positions(size, on_gpu=False), POSITIONS)
    types = [relax.TensorType((size,), "int64"), relax.TensorType((1,), "int64")]
    found = call.builder.emit(relax.call_tir(function, [flags, sums], types))
    positions, count = (call.builder.emit(relax.TupleGetItem(found, place)) for place in range(2))
    return relax.Tuple([positions, call.emit(relax.op.reshape, count, ())])


def convert_suppression(call: NodeCall) -> relax.Expr:
    """Return the boxes that non-maximum suppression keeps for each batch and class, and their number."""
    shape = static_shape(call.inputs[1])
    if shape is None:
        raise TvmbuildError(f"the shape of its scores is not known: {call.inputs[1].ty}")
    batches, classes, boxes = shape
    form = Suppression(
        batches,
        classes,
        boxes,
        int(call.attributes["kept"]),
        bool(call.attributes["center"]),
        bool(call.attributes["threshold"]),
    )
    function = call.builder.add_func(write_suppression(form), SUPPRESSION)
    types = [relax.TensorType(*each) for each in form.list_outputs()]
    found = call.builder.emit(relax.call_tir(function, list(call.inputs), types))
    return relax.Tuple([call.builder.emit(relax.TupleGetItem(found, place)) for place in range(2)])


def convert_written(call: NodeCall) -> relax.Expr:
    """Copy the elements by a function that is fused with no other."""
    function = call.builder.add_func(_write_copy(call.shape, call.dtype), "written")
    return relax.call_tir(function, [call.data], relax.TensorType(call.shape, call.dtype))


def _write_copy(shape: tuple[int, ...], dtype: str) -> tirx.PrimFunc:
    with IRBuilder() as builder, T.prim_func(s_tir=True, private=True):
        T.func_name("written")
        T.func_attr({"tirx.noalias": True, "op_pattern": OPAQUE})
        data, copy = (T.arg(name, T.buffer(shape, dtype, layout=None)) for name in ("data", "copy"))
        with T.grid(*copy.shape) as loops, T.sblock("written"):
            each = loops if isinstance(loops, list | tuple) else (loops,)
            at = [T.axis.spatial(extent, loop) for extent, loop in zip(copy.shape, each, strict=True)]
            T.reads(data[tuple(at)])
            T.writes(copy[tuple(at)])
            T.buffer_store(copy, data[tuple(at)], at)
    return builder.get()
