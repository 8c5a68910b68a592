"""Convolutions with output channels padded to whole vectors of the target.

TVM scalarizes vectors whose length is not a power of two: 58 channels would run in vectors of two, 255 in scalars. The
weights are padded with zeros when the package is built, and the additional outputs are dropped. Rows of pixels that no
register tile divides are padded in the same way (508 is 4 times 127). The first convolution is rewritten here, too: it
reads the picture in the layout of the input.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import is_call
from tvmbuild.compiler.ir.def_use import resolve
from tvmbuild.compiler.ir.expressions import FUSABLE_WITH_ELEMENTWISE, constant
from tvmbuild.compiler.ir.obstacles import explain_full, list_nhwc_obstacles
from tvmbuild.compiler.ir.rewrite import rewrite_main
from tvmbuild.compiler.machine.machine import Machine, describe_machine, divisors, power_of_two_divisor
from tvmbuild.compiler.passes.winograd.choices import keep_choices, read_choices
from tvmbuild.compiler.remarks import is_missed, missed

MAX_COLOURS = 4
"""The largest number of channels of a picture. The channels are read one by one, so that their order in memory matters
little."""
TILE = 8
"""The number of pixels of a register tile: with two vectors of channels for each, there are enough independent sums to
hide the latency of a multiplication."""
MAX_IN_TILE, MIN_IN_TILE = 28, 5
MIN_PIXELS = 64
"""The smallest row that is padded, in pixels; in a smaller row the padding would be too large a part."""
_NAME = "conv2d"
Weights = np.ndarray[Any, np.dtype[np.float32]]


def pad_conv_channels(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Pad the output channels of each NHWC convolution with constant float32 weights if that takes fewer vectors.

    A convolution of an NCHW picture reads the picture in NCHW: a conversion to NHWC would be a pass through memory.
    """
    rewriter = _PadConvChannels(mod, describe_machine(target))
    padded = rewrite_main(mod, rewriter)
    if padded is mod:
        return mod

    def replace(weights: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
        return next((after for before, after in rewriter.padded if before.same_as(weights)), weights)

    return keep_choices(padded, [[*kept, replace(weights)] for *kept, weights in read_choices(padded)])


def padded_channels(channels: int, lanes: int) -> int:
    """Return ``channels`` rounded up to whole vectors of ``lanes``, or ``channels`` itself if that saves no vectors."""
    padded = math.ceil(channels / lanes) * lanes
    return padded if padded // lanes < channels // power_of_two_divisor(channels, lanes) else channels


@mutator
class _PadConvChannels(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, machine: Machine) -> None:
        super().__init__(mod)
        self._machine = machine
        self.padded: list[tuple[tvm.runtime.Tensor, tvm.runtime.Tensor]] = []

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if not is_float_convolution(call) or int(call.attrs.groups) > 1 or is_missed(list_nhwc_obstacles(call)):
            return super().visit_call_(call)
        data, weights = self.visit_expr(call.args[0]), call.args[1]
        picture = self._find_picture(data)
        values = _padded_weights(weights.value.numpy(), self._machine.lanes(32))
        more = _more_pixels(call, self._machine)
        if values is None and picture is None and not any(more):
            missed(explain_full(int(weights.value.shape[3]), "channels", self._machine.lanes(32)))
            return super().visit_call_(call)
        if values is not None:
            weights = constant(values)
            self.padded.append((call.args[1].value, weights.value))
        arguments = [data if picture is None else picture, weights]
        function = _make_function(call, arguments, more, nchw=picture is not None)
        return relax.call_tir(self.builder_.add_func(function, _NAME), arguments, call.ty)

    def _find_picture(self, data: relax.Expr) -> relax.Expr | None:
        """Return the NCHW picture, a tensor with few channels, that was transposed to ``data`` in NHWC; else None."""
        source = resolve(self.lookup_binding, data)
        if not is_call(source, "relax.permute_dims"):
            return None
        axes = [int(axis) for axis in source.attrs.axes or ()]
        return source.args[0] if axes == [0, 2, 3, 1] and int(data.ty.shape.values[3]) <= MAX_COLOURS else None


def is_float_convolution(call: relax.Call) -> bool:
    """Return whether the call is a two-dimensional convolution in float32."""
    return is_call(call, "relax.nn.conv2d") and {str(call.args[0].ty.dtype), str(call.ty.dtype)} == {"float32"}


def _padded_weights(values: Weights, lanes: int) -> Weights | None:
    more = padded_channels(values.shape[3], lanes) - values.shape[3]
    return np.pad(values, ((0, 0), (0, 0), (0, 0), (0, more))) if more else None


def _more_pixels(call: relax.Call, machine: Machine) -> tuple[int, int]:
    """Return the numbers of rows and of columns to add, so that a register tile divides the output.

    With few pixels in a tile, weights larger than the L1 cache are read again from L2 too often.
    """
    rows, columns = (int(extent) for extent in call.ty.shape.values[1:3])
    extent = columns if columns > 1 else rows
    more = -extent % TILE
    large = math.prod(int(each) for each in call.args[1].ty.shape.values) > machine.limits.near_weights
    if not large or extent < MIN_PIXELS or max(divisors(extent, MAX_IN_TILE)) >= MIN_IN_TILE:
        return 0, 0
    return (0, more) if columns > 1 else (more, 0)


def _make_function(
    call: relax.Call, arguments: list[relax.Expr], more: tuple[int, int], *, nchw: bool
) -> tirx.PrimFunc:
    strides = [int(each) for each in call.attrs.strides]
    top, left, bottom, right = (int(each) for each in call.attrs.padding)
    data, weights = (te.placeholder(each.ty.shape.values, "float32") for each in arguments)
    whole = topi.nn.conv2d_nhwc(
        topi.transpose(data, [0, 2, 3, 1]) if nchw else data,
        weights,
        strides,
        [top, left, bottom + more[0] * strides[0], right + more[1] * strides[1]],
        [int(each) for each in call.attrs.dilation],
    )
    output = te.compute(call.ty.shape.values, lambda n, y, x, c: whole[n, y, x, c], name="channels")
    function = te.create_prim_func([data, weights, output])
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)
