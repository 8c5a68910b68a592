"""The pass that gives values whose length depends on data a fixed shape and a count.

It walks the nodes in order. Nodes that read such values are rewritten by a rule, all others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.bounds.lengths import Number
from tvmbuild.compiler.importing.bounds.names import PRODUCERS
from tvmbuild.compiler.importing.bounds.numbers import compute_numbers
from tvmbuild.compiler.importing.bounds.producers import count_true
from tvmbuild.compiler.importing.bounds.table import MEASURED, RULES
from tvmbuild.compiler.importing.bounds.tracker import Tracker, cannot_follow
from tvmbuild.compiler.importing.expand.constants import drop_unused, fold_nodes
from tvmbuild.compiler.importing.expand.expand import find_rule
from tvmbuild.compiler.importing.expand.scope import list_read, walk_nodes
from tvmbuild.compiler.importing.refusals import ONNX, NodeError
from tvmbuild.package.metadata import Count


@dataclass(frozen=True)
class Bounded:
    """A model of fixed shapes."""

    model: onnx.ModelProto
    refused: Mapping[str, NodeError]
    """The errors of nodes whose lengths cannot be followed, by the nodes' first outputs."""
    counts: Mapping[str, tuple[Count, ...]]
    """The padded axes of outputs, by the outputs' names. The lengths are in one more output, the last one."""


def bound_lengths(model: onnx.ModelProto) -> Bounded:
    """Return the model with fixed shapes; a model without data-dependent lengths is returned itself."""
    constants = {tensor.name for tensor in model.graph.initializer}
    if not any(_depends_on_data(node, constants) for node in walk_nodes(model.graph)):
        return Bounded(model, {}, {})
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return _Walk(copy).run()


def _depends_on_data(node: onnx.NodeProto, constants: set[str]) -> bool:
    if node.domain not in ONNX:
        return False
    places = MEASURED.get(node.op_type, ())
    measured = (node.input[place] for place in places if place < len(node.input))
    return node.op_type in PRODUCERS or any(name and name not in constants for name in measured)


class _Walk:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model, self.tracker = model, Tracker(model)
        self.tracker.walk, self.tracker.whole = self.take_new, self.write_whole
        self.lost: dict[str, NodeError] = {}
        """The outputs of nodes that could not be taken over, with the error of the first such node before them."""

    def run(self) -> Bounded:
        graph = self.model.graph
        for node in [*graph.node]:
            self.take(node)
        counts = self._finish_outputs()
        del graph.node[:]
        graph.node.extend(self.tracker.nodes)
        drop_unused(graph)
        return Bounded(self.model, self.tracker.refused, counts)

    def take(self, node: onnx.NodeProto) -> None:
        """Take a node over: as it is, or by a rule if it reads values that were rewritten."""
        tracker = self.tracker
        cause = next((self.lost[name] for name in list_read(node) if name in self.lost), None)
        if cause is not None:
            self._lose(node, cause)
            if any(name in tracker.names for name in list_read(node)):
                tracker.refused.setdefault(cause.node.output[0], cause)  # the node reads a value that was rewritten
            return
        count = count_true(node, tracker) if node.domain in ONNX else None
        if count is not None:
            tracker.names[node.output[0]] = count
            return
        if not self._is_touched(node):
            tracker.nodes.append(node)
            return
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [tracker.names.get(name, name) for name in node.input]
        try:
            self._write(copy)
        except (NodeError, LookupError) as error:
            if isinstance(error, LookupError):
                error = cannot_follow(node, "the length of its result depends on data")
            error = error if error.node.output[0] else NodeError(node, error.why)
            self._lose(node, error)
            if node.op_type in MEASURED and tracker.names.keys().isdisjoint(node.input):
                return  # an input of the model decides, for which the importer has advice
            tracker.refused[node.output[0]] = error

    def _lose(self, node: onnx.NodeProto, cause: NodeError) -> None:
        self.tracker.nodes.append(node)
        self.lost |= dict.fromkeys(filter(None, node.output), cause)

    def _is_touched(self, node: onnx.NodeProto) -> bool:
        names = self.tracker.names
        if any(name in names for name in list_read(node)):
            return True
        inner = [node, *walk_nodes(onnx.GraphProto(node=[node]))]
        if any(each.op_type in PRODUCERS and each.domain in ONNX for each in inner):
            return True
        places = MEASURED.get(node.op_type, ()) if node.domain in ONNX else ()
        measured = [node.input[place] for place in places if place < len(node.input) and node.input[place]]
        return any(not self.tracker.scope.is_constant(name) for name in measured)

    def _write(self, node: onnx.NodeProto) -> None:
        tracker = self.tracker
        if all(tracker.scope.is_constant(name) for name in node.input if name) and not fold_nodes(
            [node], tracker.scope
        ):
            self._set(node, node.output)
            return
        followed = compute_numbers(node, tracker) if node.domain in ONNX else None
        if followed is not None:
            tracker.names[node.output[0]] = followed
            return
        rule = RULES.get(node.op_type) if node.domain in ONNX else None
        counted = [name for name in node.input if tracker.is_counted(name)]
        if rule is not None:
            self._set(node, rule(node, tracker))
        elif counted:
            raise cannot_follow(node, f"it reads {tracker.said(counted[0])!r}, whose length depends on data")
        else:
            self._set(node, self.write_whole(node))

    def write_whole(self, node: onnx.NodeProto) -> list[str]:
        """Write a node that reads values of fixed shapes: by an expansion rule, or as it is; return its results."""
        expansion = find_rule(node)
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self.tracker.value(name) for name in node.input]
        made = None if expansion is None else expansion(copy, self.tracker.scope)
        if made is None or (made and made[0] is copy):
            if any(each.type == onnx.AttributeProto.GRAPH for each in node.attribute):
                raise cannot_follow(node, "how often it runs depends on data")
            return self.tracker.copy(copy)
        for each in made:
            self.take_new(each)
        return [self.tracker.names.get(name, name) for name in copy.output]

    def take_new(self, node: onnx.NodeProto) -> None:
        """Write a node of a branch or of an expansion, whose results have no types yet."""
        if any(name in self.lost for name in list_read(node)):
            raise cannot_follow(node, "it reads values whose length depends on data")
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [self.tracker.names.get(name, name) for name in node.input]
        self._write(copy)

    def _set(self, node: onnx.NodeProto, results: object) -> None:
        for output, result in zip(node.output, list(results), strict=False):  # type: ignore[call-overload]
            if output:
                self.tracker.names[output] = result

    def _finish_outputs(self) -> dict[str, tuple[Count, ...]]:
        """Write the model's outputs with zeros as padding, and one more output with their lengths."""
        tracker, counts, numbers = self.tracker, dict[str, tuple[Count, ...]](), list[Number]()
        for output in self.model.graph.output:
            name = tracker.names.get(output.name)
            if name is None:
                continue
            found = []
            for axis, length in sorted(tracker.lengths(name).items()):
                if length not in numbers:
                    numbers.append(length)
                found.append(Count(axis, numbers.index(length)))
            if found:
                counts[output.name] = tuple(found)
            filled = tracker.value(tracker.mask(name, 0))
            tracker.nodes.append(helper.make_node("Identity", [filled], [output.name]))
            output.CopyFrom(helper.make_tensor_value_info(output.name, tracker.kind(name), tracker.shape(name)))
        if numbers and not tracker.refused:
            self._add_lengths(numbers)
        return counts

    def _add_lengths(self, numbers: list[Number]) -> None:
        tracker = self.tracker
        parts = [tracker.reshape(tracker.scalar(each), [1]) for each in numbers]
        name = tracker.scope.fresh("lengths")
        joined = parts[0] if len(parts) == 1 else tracker.emit("Concat", *parts, axis=0)
        tracker.nodes.append(helper.make_node("Identity", [joined], [name]))
        self.model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.INT64, [len(numbers)]))
