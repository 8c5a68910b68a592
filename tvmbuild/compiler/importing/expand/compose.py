"""A composer of ONNX nodes: it writes them one after another, in the form of the model's opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_AXES_AS_INPUT = 13
"""The first opset in which Squeeze, Unsqueeze and Split take an input instead of an attribute."""
_REDUCED_AS_INPUT = {"ReduceSum": 13}
_REDUCED_LAST = 18
"""The first opset in which all other reductions take their axes as an input."""
_BOUNDS_AS_INPUTS = 11
_HAS_WHERE = 9


class Composer:
    """A composer of nodes, which it collects in ``nodes``; methods that add a node return the name of its result."""

    def __init__(self, scope: Scope, hint: str) -> None:
        """Create a composer for the model of ``scope``; the names of its values begin with ``hint``."""
        self.scope, self.nodes, self._hint = scope, Nodes(), hint

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        output = self.scope.fresh(self._hint)
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def name(self, value: str, output: str) -> None:
        """Give a value the name ``output`` in the surrounding graph; do nothing if ``output`` is empty."""
        if output:
            self.nodes.append(helper.make_node("Identity", [value], [output]))

    def constant(self, array: Any) -> str:
        """Add a constant to the model, and return its name."""
        return self.scope.add_constant(array, self._hint)

    def unsqueeze(self, value: str, axes: Sequence[int]) -> str:
        """Insert axes of length one into the value's shape."""
        return self._with_axes("Unsqueeze", value, axes)

    def squeeze(self, value: str, axes: Sequence[int]) -> str:
        """Remove axes of length one from the value's shape."""
        return self._with_axes("Squeeze", value, axes)

    def split(self, value: str, axis: int, sizes: Sequence[int]) -> list[str]:
        """Cut the value along an axis into parts of these sizes, and return the names of the parts."""
        if len(sizes) == 1:
            return [value]
        outputs = [self.scope.fresh(self._hint) for _ in sizes]
        if self.scope.opset >= _AXES_AS_INPUT:
            node = helper.make_node("Split", [value, self._integers(sizes)], outputs, axis=axis)
        else:
            node = helper.make_node("Split", [value], outputs, axis=axis, split=list(sizes))
        self.nodes.append(node)
        return outputs

    def reduce(self, operator: str, value: str, axis: int, *, keep: bool = False) -> str:
        """Reduce the value along an axis by an operator (ReduceSum, ReduceMax …).

        If ``keep`` is set, the axis stays, with length one.
        """
        if self.scope.opset >= _REDUCED_AS_INPUT.get(operator, _REDUCED_LAST):
            return self.add(operator, value, self._integers([axis]), keepdims=int(keep))
        return self.add(operator, value, axes=[axis], keepdims=int(keep))

    def clip(self, value: str, bound: np.ndarray) -> str:
        """Clip the value to the range from minus to plus ``bound``, a scalar of the value's type."""
        if self.scope.opset < _BOUNDS_AS_INPUTS:
            return self.add("Clip", value, min=-float(bound), max=float(bound))
        return self.add("Clip", value, self.constant(-bound), self.constant(bound))

    def where(self, condition: str, chosen: str, other: str) -> str:
        """Choose between two finite float32 values, element by element."""
        if self.scope.opset >= _HAS_WHERE:
            return self.add("Where", condition, chosen, other)
        share = self.add("Cast", condition, to=onnx.TensorProto.FLOAT)
        rest = self.add("Sub", self.constant(np.array(1, dtype=np.float32)), share)
        return self.add("Add", self.add("Mul", share, chosen), self.add("Mul", rest, other))

    def stack(self, values: Sequence[str], axis: int) -> str:
        """Join values of the same shape along a new axis."""
        return self.concat([self.unsqueeze(value, [axis]) for value in values], axis)

    def concat(self, values: Sequence[str], axis: int) -> str:
        """Concatenate values along an axis."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=axis)

    def _with_axes(self, operator: str, value: str, axes: Sequence[int]) -> str:
        if self.scope.opset >= _AXES_AS_INPUT:
            return self.add(operator, value, self._integers(axes))
        return self.add(operator, value, axes=list(axes))

    def _integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, dtype=np.int64))
