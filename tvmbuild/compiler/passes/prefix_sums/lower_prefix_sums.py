"""A pass that replaces prefix sums (CumSum) by functions for the target: TVM's own are wrong or slow."""

from __future__ import annotations

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.passes.prefix_sums.blocks import sum_in_blocks
from tvmbuild.compiler.passes.prefix_sums.rows import sum_rows
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
        return sum_rows(builder, data, axis, describe_machine(target), exclusive=exclusive)

    return rewrite_calls(mod, rewrite)
