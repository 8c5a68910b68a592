"""Grouped convolutions with a separate axis for the group, so that they get register tiles like other convolutions.

TVM computes the group from the output channel. The inputs of a sum then depend on the channel, no vector of channels
shares its inputs, and each element is computed alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi

from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, constant, static_shape
from tvmbuild.compiler.ir.obstacles import list_nhwc_obstacles
from tvmbuild.compiler.ir.rewrite import rewrite_calls
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.passes.pad_conv_channels import is_float_convolution, padded_channels
from tvmbuild.compiler.remarks import is_missed

_NAME = "conv2d_groups"


def separate_groups(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite each grouped NHWC convolution with constant float32 weights; depthwise ones are fast and are kept."""
    lanes = describe_machine(target).lanes(32)

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        if not _is_grouped(call) or is_missed(list_nhwc_obstacles(call)):
            return None
        weights = constant(_separate(call.args[1].value.numpy(), int(call.attrs.groups), lanes))
        return relax.call_tir(builder.add_func(_make_function(call, weights), _NAME), [call.args[0], weights], call.ty)

    return rewrite_calls(mod, rewrite)


def _is_grouped(call: relax.Call) -> bool:
    """Return whether the call is a float32 convolution with several groups of several input channels each."""
    if not is_float_convolution(call) or int(call.attrs.groups) == 1:
        return False
    kernel = dict(zip(str(call.attrs.kernel_layout), static_shape(call.args[1]) or (), strict=False))
    return kernel.get("I", 1) > 1


def _separate(values: np.ndarray[Any, Any], groups: int, lanes: int) -> np.ndarray[Any, Any]:
    """Return HWIO weights as H x W x I x groups x outputs of a group; the last axis is padded to whole vectors."""
    apart = values.reshape(*values.shape[:3], groups, -1)
    more = padded_channels(apart.shape[4], lanes) - apart.shape[4]
    return np.ascontiguousarray(np.pad(apart, (*[(0, 0)] * 4, (0, more))))


def _make_function(call: relax.Call, separated: relax.Expr) -> tirx.PrimFunc:
    data, weights = (te.placeholder(each.ty.shape.values, "float32") for each in (call.args[0], separated))
    down, right = (int(each) for each in call.attrs.strides)
    below, beside = (int(each) for each in call.attrs.dilation)
    pads = [int(each) for each in call.attrs.padding]
    padded = topi.nn.pad(data, [0, *pads[:2], 0], [0, *pads[2:], 0]) if any(pads) else data
    rows, columns, inputs, groups, wide = (int(each) for each in separated.ty.shape.values)
    batch, height, width, channels = (int(each) for each in call.ty.shape.values)
    row, column, k = (
        te.reduce_axis((0, extent), name=name) for extent, name in ((rows, "ry"), (columns, "rx"), (inputs, "rc"))
    )

    def product(n: Any, y: Any, x: Any, g: Any, c: Any) -> Any:
        read = padded[n, y * down + row * below, x * right + column * beside, g * inputs + k]
        return te.sum(read * weights[row, column, k, g, c], axis=[row, column, k])

    whole = te.compute((batch, height, width, groups, wide), product, name="conv2d_groups")
    own = channels // groups
    output = te.compute(call.ty.shape.values, lambda n, y, x, c: whole[n, y, x, c // own, c % own], name="channels")
    function = te.create_prim_func([data, weights, output])
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)
