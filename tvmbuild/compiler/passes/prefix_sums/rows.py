"""Prefix sums on CPUs, each row added to the one before it, where neighbouring elements have independent sums.

TVM's own function goes along the axis for one element at a time: in memory, each step is a row further.
"""

from __future__ import annotations

import math

import tvm
from tvm import relax

from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.kernels.prefix_sums import PrefixSums, write_prefix_sums
from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.remarks import missed


def sum_rows(
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
