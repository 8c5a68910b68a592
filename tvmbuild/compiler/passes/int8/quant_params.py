"""The integers behind a value of the graph: their zero points, scales and bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax

from tvmbuild.compiler.ir.expressions import constant

Floats = np.ndarray[Any, np.dtype[np.float32]]
Whole = np.ndarray[Any, np.dtype[np.int64]]
Integers = np.ndarray[Any, np.dtype[np.integer[Any]]]
UNSIGNED = 128
"""The number to add to an int8 value to store it as uint8."""
MOST = 1 << 30
"""The limit of a sum of products, and the limit of its offset: together they fit in int32."""
MAX_OF_BIAS = 1 << 23
"""The limit of a bias in integer steps: below it, a sum of few products with its bias is exact in float32."""


@dataclass(frozen=True)
class Quantised:
    """The tensor (value - zero) * scale, where the value is uint8, or int8 for a product that needs signed data."""

    value: relax.Expr
    scale: np.float32
    zero: int

    def has_steps_of(self, other: Quantised) -> bool:
        """Return whether both have the same scale and zero point."""
        return self.scale == other.scale and self.zero == other.zero

    def is_of(self, steps: QuantParams) -> bool:
        """Return whether quantising the numbers with the parameters ``steps`` gives these integers."""
        is_one = np.ndim(steps.scale) == 0 and steps.dtype == "uint8"
        return is_one and bool(self.scale == steps.scale) and self.zero == steps.zero


@dataclass(frozen=True)
class ByChannel:
    """The tensor (value - zero) * scale, where the value is a tensor of bytes in NCHW, with a scale for each channel.

    If the channels had different zero points, these are already subtracted from the value. It is then int16, with
    integers from -255 to 255, or uint8 if no integer can be negative.
    """

    value: relax.Expr
    scale: Floats
    zero: int = 0


@dataclass(frozen=True)
class QuantParams:
    """The parameters of a quantisation: integer i, from ``low`` to ``high``, stands for (i - ``zero``) * ``scale``.

    Scale and bounds are single numbers, or arrays that broadcast to the tensor.
    """

    scale: Floats | np.float32
    zero: int
    low: Whole | int = 0
    high: Whole | int = 255
    dtype: str = "uint8"


@dataclass(frozen=True)
class QuantizedConstant:
    """The constant (values - zeros) * scales; scales and zeros are single numbers, or one for each index of an axis."""

    values: Integers
    scales: Floats
    zeros: Integers
    axis: int

    @property
    def is_per_axis(self) -> bool:
        """Return whether each index of the axis has its own scale."""
        return self.scales.size > 1

    def widen(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return ``array``, the scales or zeros, in a shape that broadcasts to the values."""
        if array.size == 1:
            return array.reshape(())
        return array.reshape([-1 if place == self.axis else 1 for place in range(self.values.ndim)])

    @property
    def differences(self) -> Whole:
        """The values minus their zero points."""
        result: Whole = np.subtract(self.values, self.widen(self.zeros), dtype=np.int64)
        return result

    @property
    def numbers(self) -> Floats:
        """The dequantised constant, in float32."""
        result: Floats = np.multiply(self.differences, self.widen(self.scales), dtype=np.float64).astype(np.float32)
        return result

    def transpose(self, axes: tuple[int, ...]) -> QuantizedConstant:
        """Return the transposed constant."""
        return replace(self, values=self.values.transpose(axes), axis=axes.index(self.axis % self.values.ndim))


@dataclass(frozen=True)
class Accumulator:
    """The tensor (value + offset) * scale + bias, clipped to ``low`` and ``high``, where the value is int32.

    Offset, scale and bias broadcast to the value, and vary along one axis at most.
    """

    value: relax.Expr
    offset: Whole
    scale: Floats
    low: float = float("-inf")
    high: float = float("inf")
    bias: Floats | None = None
    """The bias, if it is added in float32, because in some channel it has too many integer steps for ``offset``."""

    @property
    def is_bounded(self) -> bool:
        """Return whether an activation has bounded the sum; a bias that is added later is then not part of the sum."""
        return self.low > float("-inf") or self.high < float("inf")


@dataclass(frozen=True)
class Joined:
    """A concatenation of tensors with different scales or zero points."""

    parts: tuple[relax.Expr, ...]
    axis: int


# Quantisation written out in operators that every graph pass handles.

Emit = Callable[[relax.Expr], relax.Expr]


def dequantise(emit: Emit, source: Quantised | ByChannel) -> relax.Expr:
    """Return the float32 numbers of a tensor of integers."""
    wide = emit(relax.op.astype(source.value, "float32"))
    if source.zero:
        wide = emit(relax.op.subtract(wide, _number(source.zero)))
    return relax.op.multiply(wide, _number(source.scale))


def quantise(emit: Emit, data: relax.Expr, steps: QuantParams) -> relax.Expr:
    """Return the integers nearest to the numbers, the even one of two that are equally near."""
    # A division takes as long as 30 additions. The product differs in the last bit, as for the graph's other scalars.
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(1) / steps.scale
    is_right = bool(np.all(np.isfinite(inverse)))
    steady = relax.op.multiply(data, _number(inverse)) if is_right else relax.op.divide(data, _number(steps.scale))
    return _clip(emit, emit(steady), steps)


def requantise(emit: Emit, data: Accumulator, steps: QuantParams) -> relax.Expr:
    """Return the integers nearest to the accumulator's numbers.

    The int32 sum is multiplied once, by the ratio of the scales, as in ONNX Runtime.
    """
    return _clip(emit, emit(_scale(emit, data, steps.scale)), narrow(data, steps))


def narrow(data: Accumulator, steps: QuantParams) -> QuantParams:
    """Return the parameters with their range narrowed to the accumulator's bounds."""
    low, high = (_round_bound(bound, steps) for bound in (data.low, data.high))
    return replace(steps, low=low, high=high)


def sum_up(emit: Emit, data: Accumulator) -> relax.Expr:
    """Return the dequantised accumulator, without its bounds."""
    return _scale(emit, data, np.float32(1))


def _scale(emit: Emit, data: Accumulator, unit: Any) -> relax.Expr:
    """Return the accumulator divided by ``unit``, in float32, without its bounds.

    If the bias is added in float32, the offset is added with it.
    """
    value, ratio = data.value, np.asarray(data.scale / unit, np.float32)
    if data.bias is None and np.any(data.offset):
        value = emit(relax.op.add(value, constant(data.offset.astype(np.int32))))
    scaled = relax.op.multiply(emit(relax.op.astype(value, "float32")), constant(ratio))
    if data.bias is None:
        return scaled
    bias = (data.offset * data.scale.astype(np.float64) + data.bias) / unit
    return relax.op.add(emit(scaled), _number(bias))


def _clip(emit: Emit, data: relax.Expr, steps: QuantParams) -> relax.Expr:
    """Round the numbers, clip them to the bounds, and cast them to the integer type.

    A bound of one number is applied after rounding, by one instruction. Bounds by channel are applied before rounding,
    which gives the same result, because they are whole numbers.
    """
    low, high = (bound - steps.zero for bound in (steps.low, steps.high))
    if np.ndim(high):
        data = emit(relax.op.minimum(data, _number(high)))
    if np.ndim(low):
        data = emit(relax.op.maximum(data, _number(low)))
    rounded = emit(relax.op.round(data))
    if steps.zero:
        rounded = emit(relax.op.add(rounded, _number(steps.zero)))
    if not np.ndim(low):
        rounded = emit(relax.op.maximum(rounded, _number(steps.low)))
    if not np.ndim(high):
        rounded = emit(relax.op.minimum(rounded, _number(steps.high)))
    return relax.op.astype(rounded, steps.dtype)


def _round_bound(bound: float, steps: QuantParams) -> Whole | int:
    """Return the integers that stand for the bound, limited to the range of ``steps``."""
    rounded = np.rint(np.float32(bound) / steps.scale) + steps.zero
    return _unite(np.asarray(np.clip(rounded, steps.low, steps.high)).astype(np.int64))


def _unite(bounds: Whole) -> Whole | int:
    """Return the bounds as one number if all channels have the same bound; else return them unchanged."""
    return int(bounds.flat[0]) if bounds.size and np.all(bounds == bounds.flat[0]) else bounds


def _number(value: Any) -> relax.Expr:
    return constant(np.asarray(value, np.float32))
