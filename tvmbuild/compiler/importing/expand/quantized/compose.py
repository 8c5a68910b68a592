"""A composer of dequantisations and quantisations, per tensor or along an axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Scope


@dataclass(frozen=True)
class Quantized:
    """The names of a quantised tensor, its scale and its zero point; an empty name stands for a zero point of 0."""

    value: str
    scale: str
    zero_point: str = ""


class QuantizedComposer(Composer):
    """A composer of nodes in the QDQ form; nodes whose inputs are all constants are folded afterwards."""

    def __init__(self, node: onnx.NodeProto, scope: Scope) -> None:
        """Create a composer; the names of its values begin with the node's name."""
        super().__init__(scope, node.name or node.op_type)

    def find_axis(self, of: Quantized, axis: int) -> int | None:
        """Return ``axis`` if the tensor has a scale or zero point for each element of the axis, else None."""
        return axis if self._is_vector(of.scale) or self._is_vector(of.zero_point) else None

    def dequantize(self, of: Quantized, axis: int | None = None) -> str:
        """Dequantise the tensor, along ``axis`` if it is not None, and return the name of its floats."""
        scale, zero_point = self.parameter(of.scale), self.parameter(of.zero_point)
        if axis is not None and of.zero_point and not self._is_vector(of.zero_point):
            zero_point = self.add("Expand", zero_point, self.add("Shape", scale))
        elif axis is not None and not self._is_vector(of.scale) and self._is_vector(of.zero_point):
            scale = self.add("Expand", scale, self.add("Shape", zero_point))
        inputs = [name for name in (of.value, scale, zero_point) if name]
        return self.add("DequantizeLinear", *inputs, **({} if axis is None else {"axis": axis}))

    def dequantize_broadcast(self, of: Quantized) -> str:
        """Dequantise a tensor whose scales or zero points have shapes that only broadcasting can express."""
        floats = self.add("Cast", of.value, to=TensorProto.FLOAT)
        if of.zero_point:
            floats = self.add("Sub", floats, self.add("Cast", of.zero_point, to=TensorProto.FLOAT))
        return self.add("Mul", floats, self._widen(of.scale, of.scale))

    def quantize(self, value: str, to: Quantized, kind: int, rank: int = 0) -> None:
        """Quantise the floats ``value`` to ``to.value``; without a zero point, the result has the type ``kind``.

        If the result has its channels last and the floats do not, ``rank`` is the rank of both, else 0.
        """
        zero = to.zero_point or self.constant(np.array(0, helper.tensor_dtype_to_np_dtype(kind)))
        inputs = [value, self.parameter(to.scale), self.parameter(zero)]
        made = self.scope.fresh(to.value) if rank else to.value
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, [made]))
        if rank:
            last = [0, *range(2, rank), 1]
            self.nodes.append(helper.make_node("Transpose", [made], [to.value], perm=last))

    def channels_first(self, of: Quantized, rank: int) -> Quantized:
        """Return the tensor with its last axis moved to the second place, or the tensor itself if ``rank`` is 0."""
        if not rank:
            return of
        first = self.add("Transpose", of.value, perm=[0, rank - 1, *range(1, rank - 1)])
        return Quantized(first, of.scale, of.zero_point)

    def parameter(self, name: str) -> str:
        """Return scales or zero points with at most one dimension; float16 scales become float32, so that sums fit."""
        shape = self.scope.shape(name) or ()
        if len(shape) <= 1:
            return self._widen(name, name)
        sizes: list[int] = [-1] if self._is_vector(name) else []
        return self._widen(self.add("Reshape", name, self.constant(np.array(sizes, np.int64))), name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of scales or zero points, or the shape of a scalar if it is unknown."""
        return self.scope.shape(name) or ()

    def count(self, name: str) -> int:
        """Return the number of scales or zero points, or 1 if it is unknown."""
        return int(np.prod(self.shape(name)))

    def number(self, value: float) -> str:
        """Add a float32 scalar constant."""
        return self.constant(np.array(value, np.float32))

    def _widen(self, name: str, like: str) -> str:
        half = self.scope.element_type(like) in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        return self.add("Cast", name, to=TensorProto.FLOAT) if half else name

    def _is_vector(self, name: str) -> bool:
        return bool(name) and self.count(name) > 1
