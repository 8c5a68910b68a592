"""Grouped convolutions with a separate axis for the group, so that they get register tiles like other convolutions.

TVM computes the group from the output channel. The inputs of a sum then depend on the channel, no vector of channels
shares its inputs, and each element is computed by itself. Depthwise convolutions with several outputs of a channel, as
FastViT has them, have their channels innermost instead, in vectors, once for each output.
"""

from __future__ import annotations

from collections.abc import Callable
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
Array = np.ndarray[Any, Any]


def separate_groups(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Rewrite each grouped NHWC convolution with constant float32 weights; plain depthwise ones are fast already."""
    lanes = describe_machine(target).lanes(32)

    def rewrite(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
        form = _choose_form(call)
        if form is None or is_missed(list_nhwc_obstacles(call)):
            return None
        groups = int(call.attrs.groups)
        separate, make = form
        weights = constant(separate(call.args[1].value.numpy(), groups, lanes))
        return relax.call_tir(builder.add_func(make(call, weights), _NAME), [call.args[0], weights], call.ty)

    return rewrite_calls(mod, rewrite)


def _choose_form(call: relax.Call) -> tuple[Callable[..., Array], Callable[..., tirx.PrimFunc]] | None:
    """Return the functions that arrange the weights and make the kernel, or None for a call that is kept."""
    if not is_float_convolution(call) or int(call.attrs.groups) == 1:
        return None
    kernel = dict(zip(str(call.attrs.kernel_layout), static_shape(call.args[1]) or (), strict=False))
    if kernel.get("I", 1) > 1:
        return _separate, _make_groups
    return (_multiply, _make_multiplied) if kernel.get("O", 1) > int(call.attrs.groups) else None


def _separate(values: Array, groups: int, lanes: int) -> Array:
    """Return HWIO weights as H x W x I x groups x outputs of a group; the last axis is padded to whole vectors."""
    apart = values.reshape(*values.shape[:3], groups, -1)
    more = padded_channels(apart.shape[4], lanes) - apart.shape[4]
    return np.ascontiguousarray(np.pad(apart, (*[(0, 0)] * 4, (0, more))))


def _multiply(values: Array, groups: int, _lanes: int) -> Array:
    """Return depthwise HWIO weights as H x W x outputs of a channel x channels."""
    return np.ascontiguousarray(values.reshape(*values.shape[:2], groups, -1).swapaxes(2, 3))


class _Convolution:
    """The tensors of a convolution's function, and its reads of the padded data."""

    def __init__(self, call: relax.Call, arranged: relax.Expr) -> None:
        self.call = call
        self.data, self.weights = (te.placeholder(each.ty.shape.values, "float32") for each in (call.args[0], arranged))
        pads = [int(each) for each in call.attrs.padding]
        self.padded = topi.nn.pad(self.data, [0, *pads[:2], 0], [0, *pads[2:], 0]) if any(pads) else self.data
        rows, columns, *_ = self.shape = tuple(int(each) for each in arranged.ty.shape.values)
        self.row, self.column = te.reduce_axis((0, rows), name="ry"), te.reduce_axis((0, columns), name="rx")

    def read(self, n: Any, y: Any, x: Any, channel: Any) -> Any:
        """Return the element of a channel in the window of an output."""
        down, right = (int(each) for each in self.call.attrs.strides)
        below, beside = (int(each) for each in self.call.attrs.dilation)
        return self.padded[n, y * down + self.row * below, x * right + self.column * beside, channel]

    def finish(self, product: Callable[..., Any], order: Callable[[Any], tuple[Any, Any]]) -> tirx.PrimFunc:
        """Return the function that computes ``product`` with the last two axes of the weights apart.

        ``order`` returns their indices for a channel of the output.
        """
        size = list(self.call.ty.shape.values)
        whole = te.compute([*map(int, size[:3]), *self.shape[-2:]], product, name="conv2d_groups")
        output = te.compute(size, lambda n, y, x, c: whole(n, y, x, *order(c)), name="channels")
        function = te.create_prim_func([self.data, self.weights, output])
        return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)


def _make_groups(call: relax.Call, separated: relax.Expr) -> tirx.PrimFunc:
    made = _Convolution(call, separated)
    inputs, groups = made.shape[2:4]
    own = int(call.ty.shape.values[3]) // groups
    k = te.reduce_axis((0, inputs), name="rc")

    def product(n: Any, y: Any, x: Any, g: Any, c: Any) -> Any:
        value = made.read(n, y, x, g * inputs + k)
        return te.sum(value * made.weights[made.row, made.column, k, g, c], axis=[made.row, made.column, k])

    return made.finish(product, lambda c: (c // own, c % own))


def _make_multiplied(call: relax.Call, multiplied: relax.Expr) -> tirx.PrimFunc:
    made = _Convolution(call, multiplied)
    times = made.shape[2]

    def product(n: Any, y: Any, x: Any, turn: Any, c: Any) -> Any:
        value = made.read(n, y, x, c)
        return te.sum(value * made.weights[made.row, made.column, turn, c], axis=[made.row, made.column])

    return made.finish(product, lambda c: (c % times, c // times))
