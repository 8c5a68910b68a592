"""A pass that replaces prefix sums (CumSum) by functions for the target: TVM's own are wrong or slow.

On CPUs each row is added to the one before it, so that neighbouring elements have independent sums. TVM's function goes
along the axis for one element at a time: in memory, each step is a row further.
"""

from __future__ import annotations

import math

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.kernels.prefix_sums import PrefixSums, write_prefix_sums
from tvmbuild.compiler.machine.machine import Machine, describe_machine
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.passes.prefix_sums.blocks import sum_in_blocks
from tvmbuild.compiler.remarks import missed


def lower_prefix_sums(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Replace each `relax.cumsum` along one axis: on GPUs by sums of blocks, on CPUs by sums of rows."""
    if not operator_calls(mod, "relax.cumsum"):
        return mod

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        shape = static_shape(call)
        if not is_call(call, "relax.cumsum"):
            return None
        if shape is None or 0 in shape:
            return missed("its shape is not known, or it has no elements")
        if call.attrs.axis is None:
            return missed("it runs over all axes")
        data, dtype, axis = call.args[0], str(call.ty.dtype), int(call.attrs.axis) % len(shape)
        if str(data.ty.dtype) != dtype:
            data = builder.emit(relax.op.astype(data, dtype))
        exclusive = bool(call.attrs.exclusive)
        if is_gpu(target):
            return sum_in_blocks(builder, data, axis, exclusive=exclusive)
        return _sum_rows(builder, data, axis, describe_machine(target), exclusive=exclusive)

    return rewrite_calls(mod, rewrite)


def _sum_rows(
    builder: relax.BlockBuilder, data: relax.Expr, axis: int, machine: Machine, *, exclusive: bool
) -> relax.Expr | None:
    """Return the prefix sums of the data along an axis, or None where they run along memory."""
    shape, dtype = static_shape(data) or (), str(data.ty.dtype)
    inner = math.prod(shape[axis + 1 :])
    if inner == 1:
        return missed("it runs along memory: each sum waits for the one before")
    form = PrefixSums(math.prod(shape[:axis]), shape[axis], inner, dtype, exclusive)
    function = write_prefix_sums(form, machine.lanes(tvm.DataType(dtype).bits))
    flat = builder.emit(relax.op.reshape(data, [form.count]))
    result = relax.TensorType([form.count], dtype)
    sums = builder.emit(relax.call_tir(builder.add_func(function, "prefix_sums"), [flat], result))
    return relax.op.reshape(sums, shape)
