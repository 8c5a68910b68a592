"""Expansion of If, Loop and Scan if their control flow is known when the package is built.

If becomes the branch that is taken; Loop and Scan become copies of their body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.constants import fold_nodes
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of
from tvmbuild.compiler.importing.refusals import refuse

MAX_NODES = 20_000
"""The largest number of nodes of an unrolled loop."""
MAX_COPIES = 5_000
_SCAN_WITHOUT_BATCH = 9
"""The first opset in which Scan has no batch dimension of its own."""


def unroll_if(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the nodes of the branch that If takes, or None if the condition is not constant."""
    condition = scope.constant(node.input[0])
    if condition is None:
        return None
    branch = attributes_of(node)["then_branch" if condition.all() else "else_branch"]
    body = _Body(branch, scope, node.name or "If")
    results = body.repeat(())
    for result, output in zip(results, node.output, strict=True):
        body.composer.name(result, output)
    return body.composer.nodes


def unroll_loop(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the copies of Loop's body, or None if the number of iterations depends on data.

    Raises NodeError if the loop is too long.
    """
    most, condition = ([*node.input, ""][index] for index in (0, 1))
    if most and not scope.is_constant(most):
        return None
    limit = int(_item(scope, most)) if most else None
    carried = list(node.input[2:])
    body = _Body(attributes_of(node)["body"], scope, node.name or "Loop")
    collected: list[Sequence[str]] = []
    going = condition or scope.add_constant(np.array(True))
    while limit is None or len(collected) < limit:
        if not scope.is_constant(going):
            return None
        body.check_length(node)
        if not _item(scope, going):
            break
        number = np.full(body.shape_of_number, len(collected), dtype=np.int64)
        results = body.repeat((scope.add_constant(number), going, *carried))
        going, carried = results[0], list(results[1 : 1 + len(carried)])
        collected.append(results[1 + len(carried) :])
    outputs = node.output[len(carried) :]
    found = [_Collected(name, [each[index] for each in collected]) for index, name in enumerate(outputs)]
    return _finish(node, body, carried, found)


def unroll_scan(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Return the copies of Scan's body, one for each element of the scanned axes, or None if a shape is unknown.

    Raises NodeError if the loop is too long, and for the Scan of opset 8.
    """
    attributes = attributes_of(node)
    number, graph = attributes["num_scan_inputs"], attributes["body"]
    if scope.opset < _SCAN_WITHOUT_BATCH:
        raise refuse(
            node, "it is that of opset 8, with dimensions of batches", "export the model with opset 9 or later"
        )
    carried, scanned = list(node.input[:-number]), list(node.input[-number:])
    shapes = [scope.shape(name) for name in scanned]
    if any(shape is None for shape in shapes):
        return None
    body = _Body(graph, scope, node.name or "Scan")
    back = attributes.get("scan_input_directions", [0] * number)
    axes = attributes.get("scan_input_axes", [0] * number)
    slices = [
        body.slice(name, axis % len(shape), shape[axis], bool(backwards))
        for name, shape, axis, backwards in zip(scanned, shapes, axes, back, strict=True)
        if shape is not None
    ]
    collected: list[Sequence[str]] = []
    for elements in zip(*slices, strict=True):
        body.check_length(node)
        results = body.repeat((*carried, *elements))
        carried = list(results[: len(carried)])
        collected.append(results[len(carried) :])
    outputs = node.output[len(carried) :]
    backwards = attributes.get("scan_output_directions", [0] * len(outputs))
    axes = attributes.get("scan_output_axes", [0] * len(outputs))
    columns = [[each[index] for each in collected] for index in range(len(outputs))]
    ordered = [column[::-1] if back else column for column, back in zip(columns, backwards, strict=True)]
    return _finish(node, body, carried, [_Collected(*each) for each in zip(outputs, ordered, axes, strict=True)])


@dataclass
class _Body:
    """The body of a control-flow node, which is copied as often as needed."""

    graph: onnx.GraphProto
    scope: Scope
    hint: str
    composer: Composer = field(init=False)
    copies: int = 0
    _constants: dict[str, str] = field(init=False)
    """The names in the model of the body's own constants, which all copies share, by their names in the body."""

    def __post_init__(self) -> None:
        self.composer = Composer(self.scope, self.hint)
        self._constants = self.scope.adopt_constants(self.graph.initializer, self.hint)

    def check_length(self, node: onnx.NodeProto) -> None:
        if len(self.composer.nodes) > MAX_NODES or self.copies > MAX_COPIES:
            why = f"its body would be copied {self.copies} times and more"
            raise refuse(node, why, "export one step, and repeat it in the program")

    @property
    def shape_of_number(self) -> list[int]:
        """The shape that a Loop's body declares for the iteration's number: a scalar, or one element."""
        return [1] * len(self.graph.input[0].type.tensor_type.shape.dim)

    def repeat(self, arguments: Sequence[str]) -> list[str]:
        """Add a copy of the body with the inputs ``arguments``, and return the names of the copy's outputs."""
        self.copies += 1
        names = {value.name: name for value, name in zip(self.graph.input, arguments, strict=True)} | self._constants
        nodes = self.scope.rename_into(self.graph, names, self.hint)
        self.composer.nodes += fold_nodes(nodes, self.scope)
        return [names.get(value.name, value.name) for value in self.graph.output]

    def slice(self, name: str, axis: int, length: int, backwards: bool) -> list[str]:
        """Cut a value into its elements along ``axis``; return their names, in reverse order if ``backwards``."""
        parts = self.composer.split(name, axis, [1] * length)
        elements = [self.composer.squeeze(part, [axis]) for part in parts]
        return elements[::-1] if backwards else elements


@dataclass(frozen=True)
class _Collected:
    """The values of one output from all copies of a body, which are joined along an axis."""

    output: str
    values: Sequence[str]
    axis: int = 0


def _finish(node: onnx.NodeProto, body: _Body, carried: Sequence[str], collected: Sequence[_Collected]) -> Nodes | None:
    """Give the node's output names to the last carried values and to the collected values.

    Return all nodes, or None if an output has no values.
    """
    for name, output in zip(carried, node.output, strict=False):
        body.composer.name(name, output)
    for each in collected:
        if not each.values:
            return None
        if each.output:
            body.composer.name(body.composer.stack(each.values, each.axis), each.output)
    return body.composer.nodes


def _item(scope: Scope, name: str) -> bool | int:
    value = scope.constant(name)
    if value is None:
        raise KeyError(name)
    return value.reshape(-1)[0].item()  # type: ignore[no-any-return]
