"""Convolutions whose output channels do not fill the target's vectors, computed with as many more as do.

TVM computes vectors whose length is no power of two one element at a time: 58 channels would be done two by two, 255
one by one. The weights are padded with zeros when the package is built; what they give is left out of the output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvmbuild.compiler.fallback_nest import describe_machine, power_of_two_divisor
from tvmbuild.compiler.rewrite import FUSABLE_WITH_ELEMENTWISE, rewrite_main

_NAME = "conv2d"


@dataclass(frozen=True)
class Padded:
    """A module with its channels padded."""

    mod: tvm.ir.IRModule
    weights: tuple[tuple[tvm.runtime.Tensor, tvm.runtime.Tensor], ...]
    """(before, after) of each convolution that was padded, in program order."""

    def find_weights(self, before: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
        """Return the weights that the module has in their place."""
        return next((after for each, after in self.weights if each.same_as(before)), before)


def pad_channels(mod: tvm.ir.IRModule, target: tvm.target.Target) -> Padded:
    """Pad the output channels of each NHWC convolution with constant float32 weights where it takes fewer vectors."""
    rewriter = _Rewriter(mod, describe_machine(target).lanes(32))
    rewritten = rewrite_main(mod, rewriter)
    return Padded(rewritten if rewriter.padded else mod, tuple(rewriter.padded))


def padded_channels(channels: int, lanes: int) -> int:
    """Return how many channels to compute for that many, in vectors of at most ``lanes``."""
    padded = math.ceil(channels / lanes) * lanes
    return padded if padded // lanes < channels // power_of_two_divisor(channels, lanes) else channels


@mutator
class _Rewriter(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: tvm.ir.IRModule, lanes: int) -> None:
        super().__init__(mod)
        self._lanes = lanes
        self.padded: list[tuple[tvm.runtime.Tensor, tvm.runtime.Tensor]] = []

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        weights = _padded_weights(call, self._lanes)
        if weights is None:
            return super().visit_call_(call)
        constant = relax.const(weights)
        self.padded.append((call.args[1].value, constant.value))
        arguments = [self.visit_expr(call.args[0]), constant]
        variable = self.builder_.add_func(_make_function(call, arguments), _NAME)
        return relax.call_tir(variable, arguments, call.ty)


def _padded_weights(call: relax.Call, lanes: int) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.nn.conv2d":
        return None
    attributes, (data, weights) = call.attrs, call.args
    if (attributes.data_layout, attributes.kernel_layout) != ("NHWC", "HWIO") or int(attributes.groups) != 1:
        return None
    if not isinstance(weights, tvm.ir.GenericConst) or {str(data.ty.dtype), str(call.ty.dtype)} != {"float32"}:
        return None
    if not all(isinstance(extent, tirx.IntImm) for extent in data.ty.shape.values):
        return None
    values: np.ndarray[Any, np.dtype[np.float32]] = weights.value.numpy()
    more = padded_channels(values.shape[3], lanes) - values.shape[3]
    return np.pad(values, ((0, 0), (0, 0), (0, 0), (0, more))) if more else None


def _make_function(call: relax.Call, arguments: list[relax.Expr]) -> tirx.PrimFunc:
    attributes = call.attrs
    data, weights = (te.placeholder(each.ty.shape.values, "float32") for each in arguments)
    all_channels = topi.nn.conv2d_nhwc(
        data,
        weights,
        [int(each) for each in attributes.strides],
        [int(each) for each in attributes.padding],
        [int(each) for each in attributes.dilation],
    )
    output = te.compute(call.ty.shape.values, lambda n, y, x, c: all_channels[n, y, x, c], name="channels")
    function = te.create_prim_func([data, weights, output])
    return function.without_attr("global_symbol").with_attr("op_pattern", FUSABLE_WITH_ELEMENTWISE)
