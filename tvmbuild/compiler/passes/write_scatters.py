"""ScatterND and ScatterElements by kernels of our own: many threads on GPUs, rows in vectors on CPUs.

ONNX leaves open what two updates of the same element give. Updates that are added up follow their order, so that equal
inputs give equal sums.
"""

from __future__ import annotations

from functools import partial

import tvm
from tvm import relax, tirx

from tvmbuild.compiler.ir.calls import is_call, operator_calls
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.kernels.loops import THREADS
from tvmbuild.compiler.kernels.scatter import (
    CELLS,
    NAME,
    Scatter,
    write_block_scatter,
    write_scatter,
    write_scatter_on_cpu,
)
from tvmbuild.compiler.machine.limits import GpuLimits, staging_limits
from tvmbuild.compiler.machine.machine import Machine, describe_machine
from tvmbuild.compiler.machine.target import is_gpu
from tvmbuild.compiler.remarks import missed

_LOOK, _ROUND = 0.08, 5.0
"""The times, in µs, in which a GPU's thread looks at an update, and a block at one for each of its threads."""
_BLOCKS_AT_ONCE = 8
"""The number of blocks that a multiprocessor runs at once."""
_BY_ROWS, _BY_ELEMENTS = "relax.scatter_nd", "relax.scatter_elements"


def write_scatters(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Replace each scatter by a kernel for the target."""
    if not operator_calls(mod, "relax.scatter_"):
        return mod
    machine = staging_limits(target.attrs) if is_gpu(target) else describe_machine(target)
    return rewrite_calls(mod, partial(_rewrite, machine=machine))


def _rewrite(builder: relax.BlockBuilder, call: relax.Call, machine: Machine | GpuLimits) -> relax.Expr | None:
    if not is_call(call, _BY_ROWS) and not is_call(call, _BY_ELEMENTS):
        return None
    reduction = str(call.attrs.reduction)
    data, indices, updates = shapes = [static_shape(each) for each in call.args]
    if data is None or indices is None or updates is None:
        return missed("its shapes are not known")
    if not all(shapes) or any(0 in shape for shape in (data, indices, updates)):
        return missed("it has a tensor without axes or without elements")
    dtype, index_dtype = (str(call.args[place].ty.dtype) for place in (0, 1))
    axis = int(call.attrs.axis) % len(data) if is_call(call, _BY_ELEMENTS) else None
    form = Scatter(data, indices, updates, dtype, index_dtype, axis, reduction)
    kernel = _write_for_gpu(form, machine) if isinstance(machine, GpuLimits) else write_scatter_on_cpu(form, machine)
    return relax.call_tir(builder.add_func(kernel, NAME), list(call.args), relax.TensorType(data, dtype))


def _write_for_gpu(form: Scatter, limits: GpuLimits) -> tirx.PrimFunc:
    """Return the function in which threads or blocks look at the updates, whichever is faster."""
    if form.reduction == "update" or form.dtype == "bool":
        return write_scatter(form)
    updates, elements = form.updates_of_element, form.lines * form.cells
    blocks = form.lines * -(-form.cells // CELLS)
    by_threads = -(-elements // (limits.multiprocessors * limits.threads_at_once)) * updates * _LOOK
    by_blocks = -(-blocks // (limits.multiprocessors * _BLOCKS_AT_ONCE)) * -(-updates // THREADS) * _ROUND
    return write_block_scatter(form) if by_blocks < by_threads else write_scatter(form)
