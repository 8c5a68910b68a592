"""ScatterND and ScatterElements by kernels of our own: many threads on GPUs, rows in vectors on CPUs.

ONNX leaves open what two updates of the same element give. Updates that are added up follow their order, so that equal
inputs give equal sums.
"""

from __future__ import annotations

import math
from functools import partial

import tvm
from tvm import relax

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.kernels.scatter import NAME, Scatter, write_scatter, write_scatter_on_cpu
from tvmbuild.compiler.machine.limits import GpuLimits
from tvmbuild.compiler.machine.machine import Machine
from tvmbuild.compiler.remarks import missed

_IN_TURN = 2
"""The largest number of elements for each thread that a GPU runs at once, if each looks at all updates: TVM's function
takes 2.3 times as long as one of them (H200)."""
_BY_ROWS, _BY_ELEMENTS = "relax.scatter_nd", "relax.scatter_elements"


def write_scatters(mod: tvm.ir.IRModule, machine: Machine | GpuLimits) -> tvm.ir.IRModule:
    """Replace each scatter by a kernel for a CPU or a GPU."""
    return rewrite_calls(mod, partial(_rewrite, machine=machine)) if operator_calls(mod, "relax.scatter_") else mod


def _rewrite(builder: relax.BlockBuilder, call: relax.Call, machine: Machine | GpuLimits) -> relax.Expr | None:
    if not is_call(call, _BY_ROWS) and not is_call(call, _BY_ELEMENTS):
        return None
    reduction = str(call.attrs.reduction)
    data, indices, updates = shapes = [static_shape(each) for each in call.args]
    if data is None or indices is None or updates is None:
        return missed("its shapes are not known")
    if not all(shapes) or any(0 in shape for shape in (data, indices, updates)):
        return missed("it has a tensor without axes or without elements")
    elements = math.prod(data)
    if isinstance(machine, GpuLimits) and reduction != "update" and elements > _most_combined(machine):
        return missed(f"it combines updates into {elements} elements: each would look at all updates")
    dtype, index_dtype = (str(call.args[place].ty.dtype) for place in (0, 1))
    axis = int(call.attrs.axis) % len(data) if is_call(call, _BY_ELEMENTS) else None
    form = Scatter(data, indices, updates, dtype, index_dtype, axis, reduction)
    kernel = write_scatter(form) if isinstance(machine, GpuLimits) else write_scatter_on_cpu(form, machine)
    return relax.call_tir(builder.add_func(kernel, NAME), list(call.args), relax.TensorType(data, dtype))


def _most_combined(limits: GpuLimits) -> int:
    return _IN_TURN * limits.multiprocessors * limits.threads_at_once
