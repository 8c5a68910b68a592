"""Channels padded to whole vectors between integer convolutions.

Without padding, 58 channels are rounded in vectors of two. The weights of padded input channels are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.ir.calls import operator_calls, operator_name
from tvmbuild.compiler.ir.def_use import find_origin
from tvmbuild.compiler.ir.expressions import constant, static_shape
from tvmbuild.compiler.ir.obstacles import explain_full, list_nhwc_obstacles
from tvmbuild.compiler.ir.op_sets import CHANNEL_FILLING
from tvmbuild.compiler.ir.rewrite import TIDY, rewrite_main
from tvmbuild.compiler.machine.machine import describe_machine
from tvmbuild.compiler.passes.pad_conv_channels import padded_channels
from tvmbuild.compiler.remarks import is_missed, missed


def pad_int8_channels(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Pad the channels of NHWC integer convolutions to whole vectors of the CPU target."""
    if not any(str(call.ty.dtype) == "int32" for call in operator_calls(mod, "relax.nn.conv2d")):
        return mod
    lanes = describe_machine(target).lanes(32)
    return rewrite_main(mod, _PadInt8Channels(mod, lanes), TIDY)


@mutator
class _PadInt8Channels(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, lanes: int) -> None:
        super().__init__(mod)
        self._lanes = lanes
        self._filled: dict[relax.Var, relax.Var] = {}
        """An NHWC tensor → the same tensor with more channels."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        filled = self._fill(call)
        if filled is None:
            return call
        wide = self.builder_.emit(filled)
        channels = int(call.ty.shape.values[-1])
        if channels == int(wide.ty.shape.values[-1]):  # only the inputs were padded
            return wide
        narrow = self.builder_.emit(relax.op.strided_slice(wide, [3], [0], [channels]))
        self._filled[narrow] = wide
        return narrow

    def _fill(self, call: relax.Call) -> relax.Expr | None:
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        shape = static_shape(call)
        if shape is None or len(shape) != 4 or not shape[-1]:
            return None
        if name == "relax.nn.conv2d":
            return self._fill_convolution(call)
        if name in CHANNEL_FILLING:
            return self._fill_elementwise(call, shape)
        if name == "relax.nn.max_pool2d" and call.attrs.layout == "NHWC":
            return self._replace_data(call)
        if name == "relax.nn.pad" and not any(int(each) for each in list(call.attrs.pad_width)[-2:]):
            return self._replace_data(call)
        return None

    def _find(self, expr: relax.Expr) -> relax.Var | None:
        origin = find_origin(self.lookup_binding, expr)
        return self._filled.get(origin) if isinstance(origin, relax.Var) else None

    def _replace_data(self, call: relax.Call) -> relax.Expr | None:
        wide = self._find(call.args[0])
        return None if wide is None else relax.Call(call.op, [wide, *call.args[1:]], call.attrs)

    def _fill_convolution(self, call: relax.Call) -> relax.Expr | None:
        if str(call.ty.dtype) != "int32" or is_missed(list_nhwc_obstacles(call)):
            return None
        weights, groups = call.args[1].value.numpy(), int(call.attrs.groups)
        inputs, outputs = weights.shape[2:]
        wide, wanted = self._find(call.args[0]), padded_channels(outputs, self._lanes)
        if groups > 1 and (inputs > 1 or groups != outputs):
            return missed("it has groups of several channels")
        if groups > 1 and wide is None and wanted > outputs:
            data = self.builder_.emit(relax.op.nn.pad(call.args[0], [0] * 7 + [wanted - outputs]))
        else:
            data = call.args[0] if wide is None else wide
        read = int(data.ty.shape.values[-1])
        more = (0 if groups > 1 else read - inputs, (read if groups > 1 else wanted) - outputs)
        if not any(more):
            return missed(explain_full(outputs, "channels", self._lanes))
        filled = constant(np.pad(weights, ((0, 0), (0, 0), (0, more[0]), (0, more[1]))))
        return relax.op.nn.conv2d(
            data,
            filled,
            strides=list(call.attrs.strides),
            padding=list(call.attrs.padding),
            dilation=list(call.attrs.dilation),
            groups=read if groups > 1 else 1,
            data_layout="NHWC",
            kernel_layout="HWIO",
            out_dtype="int32",
        )

    def _fill_elementwise(self, call: relax.Call, shape: Sequence[int]) -> relax.Expr | None:
        wide = [self._find(each) for each in call.args]
        extents = {int(each.ty.shape.values[-1]) for each in wide if each is not None}
        if len(extents) > 1:
            return missed(f"{operator_name(call)} is of tensors with different numbers of channels")
        if not extents:
            return None
        (wanted,) = extents
        arguments = [
            self._widen(argument, (shape[-1], wanted)) if found is None else found
            for argument, found in zip(call.args, wide, strict=True)
        ]
        if None in arguments:
            return missed(f"an operand of {operator_name(call)} is neither constant nor filled up")
        return relax.Call(call.op, arguments, call.attrs)

    def _widen(self, argument: relax.Expr, channels: tuple[int, int]) -> relax.Expr | None:
        """Return the operand for the wider tensor, or None for a variable and for a constant of other channels.

        ``channels`` are the numbers of channels before and after padding.
        """
        if not isinstance(argument, tvm.ir.GenericConst):
            return None if isinstance(argument, relax.Var) else argument
        values = argument.value.numpy()
        if values.ndim == 0 or values.shape[-1] == 1:
            return argument
        own, wanted = channels
        if values.shape[-1] != own:
            return None
        return constant(np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, wanted - own)], mode="edge"))
