"""The layout of a model's convolutions on a target, if neither the user nor a search has chosen one."""

from __future__ import annotations

import math

import tvm
from tvm import relax

from tvmbuild.compiler.codegen.tensor_cores.intrinsics import SIDE
from tvmbuild.compiler.importing.importer import ImportedModel
from tvmbuild.compiler.ir.calls import operator_calls
from tvmbuild.compiler.ir.expressions import static_shape
from tvmbuild.compiler.machine.target import is_gpu, tensor_core_types
from tvmbuild.compiler.pass_manager import Layout
from tvmbuild.compiler.passes.exact_products import is_exact

_CHANNELS_IN, _CHANNELS_OUT = 16, 32
"""The smallest numbers of channels of a convolution that is faster in NHWC. On an H200 three convolutions with 24
channels out took twice as long in NHWC as in NCHW."""
_SHARE = 0.2
"""The smallest share of such convolutions in all multiply-adds with which a GPU computes a network in NHWC.

On an H200, in float32, nine networks with a share of 0.59 and more took 0.64 to 1.00 of their time in NCHW, one with
0.27 took 0.95, and those with less than 0.1 took 0.93 to 1.23 (`benchmarks/layouts_on_card.py`, 2026-11-30)."""


def default_layout(target: tvm.target.Target, imported: ImportedModel) -> Layout:
    """Return the layout of a model's convolutions on a target: NHWC or NCHW.

    CPU convolutions tune far better in NHWC. On GPUs, a thread copies a vector of channels of a window in NHWC, and
    single elements in NCHW; tensor cores compute a convolution in NHWC as one matrix product over all pixels.
    Quantised networks stay in NCHW on GPUs, for `dp4a`.
    """
    if not is_gpu(target):
        return "NHWC"
    calls = operator_calls(imported.mod, "relax.nn.conv2d")
    return "NHWC" if _use_tensor_cores(calls, target, imported) or _have_wide_windows(calls, imported) else "NCHW"


def _use_tensor_cores(calls: tuple[relax.Call, ...], target: tvm.target.Target, imported: ImportedModel) -> bool:
    suited = (call for call in calls if not imported.tf32 or not is_exact(call))
    types = {str(call.args[0].ty.dtype) for call in suited if min((static_shape(call.args[1]) or (0,))[:2]) >= SIDE}
    return bool(types & tensor_core_types(target, tf32=imported.tf32))


def _have_wide_windows(calls: tuple[relax.Call, ...], imported: ImportedModel) -> bool:
    """Return whether convolutions with windows over many channels make up enough of the multiply-adds."""
    if operator_calls(imported.mod, "relax.quantize"):
        return False
    costs = [(_count_products(call), _is_wide(call)) for call in calls if call.op.name == "relax.nn.conv2d"]
    return sum(cost for cost, wide in costs if wide) > _SHARE * sum(cost for cost, _ in costs)


def _is_wide(call: relax.Call) -> bool:
    out, taken, *window = static_shape(call.args[1]) or (0, 0)
    is_wide = taken >= _CHANNELS_IN and out >= _CHANNELS_OUT
    return is_wide and int(call.attrs.groups) == 1 and math.prod(window) > 1


def _count_products(call: relax.Call) -> int:
    """Return the number of multiply-adds, or 0 if a shape is not known."""
    outputs, weights = static_shape(call), static_shape(call.args[1])
    return math.prod(outputs) * math.prod(weights[1:]) if outputs and weights else 0
