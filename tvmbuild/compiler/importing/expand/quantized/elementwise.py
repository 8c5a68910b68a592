"""Expansion of com.microsoft's operators on quantised tensors, except products.

Each operator becomes dequantisations, the float operator, and a quantisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.quantized.compose import Quantized, QuantizedComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Rule, Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse

_AXES_AS_INPUT = 18
"""The first opset in which ReduceMean takes its axes as an input, not as an attribute."""
_ONE_AXIS = 13
"""The first opset in which Softmax is along one axis; before, it is over this and all following axes."""


@dataclass(frozen=True)
class Operation:
    """The float operator that replaces a quantised operator: its name, attributes, other inputs and layout.

    ``before`` and ``after`` are the other inputs, before and after the tensors.
    """

    name: str
    attributes: dict[str, Any]
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    rank: int = 0
    """The rank of tensors whose channels come last, else 0."""


def by_floats(operator: str, operands: int) -> Rule:
    """Return the rule of an operator whose inputs are this many quantised tensors, and then its result's parameters."""

    def expand(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
        of, to = read_operands(node, operands)
        return compute(node, scope, of, to, Operation(operator, attributes_of(node)))

    return expand


def where(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearWhere, which chooses between two tensors by a condition."""
    condition, *names = node.input
    of, to = [Quantized(*names[0:3]), Quantized(*names[3:6])], Quantized(node.output[0], *names[6:8])
    return compute(node, scope, of, to, Operation("Where", {}, before=[condition]))


def concat(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearConcat, which joins tensors with a scale of their own each."""
    scale, zero_point, *names = node.input
    of = [Quantized(*names[index : index + 3]) for index in range(0, len(names), 3)]
    return compute(
        node, scope, of, Quantized(node.output[0], scale, zero_point), Operation("Concat", attributes_of(node))
    )


def reduce_mean(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearReduceMean, the mean over axes."""
    attributes, (of, to) = attributes_of(node), read_operands(node, 1)
    after = []
    if scope.opset >= _AXES_AS_INPUT and "axes" in attributes:
        after = [scope.add_constant(np.array(attributes.pop("axes"), np.int64), node.name or node.op_type)]
    return compute(node, scope, of, to, Operation("ReduceMean", attributes, after=after))


def softmax(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QLinearSoftmax, which is the Softmax of the opset that the node names.

    Return None if a needed shape is unknown. Raises NodeError if the Softmax of the model's opset differs.
    """
    attributes, (of, to) = attributes_of(node), read_operands(node, 1)
    axis, meant = attributes.get("axis", -1), attributes.get("opset", scope.opset)
    if axis != -1 and (meant < _ONE_AXIS) != (scope.opset < _ONE_AXIS):
        shape = scope.shape(of[0].value)
        if shape is None:
            return None
        if axis != len(shape) - 1:
            remedy = "quantise the model again, all of one opset"
            raise refuse(node, f"it is of opset {meant} in a model of {scope.opset}", remedy)
    return compute(node, scope, of, to, Operation("Softmax", {"axis": axis}))


def read_operands(node: onnx.NodeProto, operands: int) -> tuple[list[Quantized], Quantized]:
    """Return the node's first ``operands`` quantised inputs and its quantised output.

    The output's zero point may be missing.
    """
    names = [*node.input, ""]
    of = [Quantized(*names[3 * index : 3 * index + 3]) for index in range(operands)]
    return of, Quantized(node.output[0], *names[3 * operands :][:2])


def compute(
    node: onnx.NodeProto, scope: Scope, of: Sequence[Quantized], to: Quantized, operation: Operation
) -> Nodes | None:
    """Return dequantisations, the float operator and a quantisation, or None if the result's type is not known yet."""
    composer, kind = QuantizedComposer(node, scope), _find_type([to, *of], scope)
    if kind is None:
        return None
    floats = [composer.dequantize(composer.channels_first(each, operation.rank)) for each in of]
    made = composer.add(operation.name, *operation.before, *floats, *operation.after, **operation.attributes)
    composer.quantize(made, to, kind, operation.rank)
    return composer.nodes


def _find_type(tensors: Sequence[Quantized], scope: Scope) -> int | None:
    """Return the first known element type of a zero point or tensor; all tensors of an operator have the same type."""
    names = [name for each in tensors for name in (each.zero_point, each.value) if name]
    return next((kind for name in names if (kind := scope.element_type(name)) is not None), None)
