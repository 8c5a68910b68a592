"""Operators of a quantised network computed in floats again, as in the float network."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx

from tvmbuild.preparing.keep.groups import MOVERS


def restore(quantised: Any, original: Any, names: Collection[str]) -> Any:
    """Return the QDQ model ``quantised`` with the named nodes in floats; it stays as it is.

    Their inputs are the values before rounding, and their constants are those of the float model ``original``, before
    the corrections that only quantised weights need. Activations that the quantiser left out, because their rounding
    contains them, are computed. Without names it is the same model.
    """
    if not names:
        return quantised
    restored = onnx.ModelProto.FromString(quantised.SerializeToString())
    _Restorer(restored.graph, original.graph).restore(names)
    return restored


class _Restorer:
    def __init__(self, graph: Any, original: Any) -> None:
        self._graph = graph
        self._nodes = {node.name: node for node in graph.node}
        self._floats = {node.name: node for node in original.node}
        self._makers = {name: node for node in original.node for name in node.output}
        self._constants = {tensor.name: tensor for tensor in original.initializer}
        self._taken = {name for node in graph.node for name in node.output} | {each.name for each in graph.initializer}
        self._moved: dict[str, Any] = {}
        """An operator that only moves numbers → its copy that moves them before rounding; a constant → its copy."""
        self._added: dict[str, str] = {}
        """A constant of the float model → its name in the graph."""

    def restore(self, names: Collection[str]) -> None:
        found = [name for name in names if name in self._nodes and name in self._floats]
        for name in found:
            self._replace_inputs(self._nodes[name], self._floats[name])
        for value in self._graph.output:
            if not self._find_computing(value.name).isdisjoint(found):
                self._return_unrounded(value.name)
        _sort_needed(self._graph)

    def _replace_inputs(self, node: Any, wanted: Any) -> None:
        found = [self._find_unrounded(name) for name in wanted.input]
        del node.input[:]
        node.input.extend(found)

    def _find_unrounded(self, name: str) -> str:
        """Return the name, in the graph, of a tensor of the float model."""
        if name in self._constants:
            return self._add_constant(self._constants[name])
        maker = self._makers.get(name)
        if maker is None:  # an input of the graph, or an input that is left out
            return name
        if maker.op_type in MOVERS or maker.op_type == "Constant":  # a quantiser corrects biases there
            return self._find_moved(maker, name)
        if maker.name not in self._nodes:
            self._add_node(maker)
        return str(self._nodes[maker.name].output[list(maker.output).index(name)])

    def _find_computing(self, name: str) -> set[str]:
        """Return the names of the nodes that compute a tensor, before operators that only move its numbers."""
        maker = self._makers.get(name)
        if maker is None:
            return set()
        if maker.op_type not in MOVERS:
            return {str(maker.name)}
        moved = maker.input if maker.op_type == "Concat" else maker.input[:1]
        return {each for part in moved for each in self._find_computing(part)}

    def _find_moved(self, maker: Any, name: str) -> str:
        """Return a tensor that is moved before it is rounded. The operator stays as it is for quantised nodes."""
        if maker.name not in self._moved:
            node = self._moved[maker.name] = self._graph.node.add()
            node.CopyFrom(maker)
            node.name = f"{maker.name}_in_floats"
            _rename(node.output, {each: self._make_name(each) for each in maker.output if each})
            self._replace_inputs(node, maker)
        return str(self._moved[maker.name].output[list(maker.output).index(name)])

    def _add_node(self, maker: Any) -> None:
        """Add a node of the float model, with outputs of other names: the node before it may return its output now."""
        node = self._nodes[maker.name] = self._graph.node.add()
        node.CopyFrom(maker)
        _rename(node.output, {name: self._make_name(name) for name in maker.output if name})
        self._replace_inputs(node, maker)

    def _make_name(self, name: str) -> str:
        name = f"{name}_in_floats"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _add_constant(self, tensor: Any) -> str:
        if tensor.name not in self._added:
            name = self._make_name(tensor.name)
            self._graph.initializer.add().CopyFrom(tensor)
            self._graph.initializer[-1].name = name
            self._added[tensor.name] = name
        return self._added[tensor.name]

    def _return_unrounded(self, output: str) -> None:
        """Make a node return the output of the graph that is rounded after it."""
        name = self._find_unrounded(output)
        if name == output:
            return
        for node in self._graph.node:
            _rename(node.output, {output: f"{output}_rounded", name: output})
            _rename(node.input, {output: f"{output}_rounded", name: output})


def _rename(names: Any, changes: dict[str, str]) -> None:
    for index, name in enumerate(names):
        names[index] = changes.get(name, name)


def _sort_needed(graph: Any) -> None:
    """Put each node after those that it reads, and remove nodes and constants that no output needs (in place)."""
    makers = {name: node for node in graph.node for name in node.output}
    ordered: dict[str, Any] = {}
    entered: set[str] = set()
    waiting = [(value.name, False) for value in reversed(graph.output)]
    while waiting:
        name, is_ready = waiting.pop()
        node = makers.get(name)
        if node is None or node.output[0] in ordered or (not is_ready and node.output[0] in entered):
            continue
        entered.add(node.output[0])
        if is_ready:
            ordered[node.output[0]] = onnx.NodeProto.FromString(node.SerializeToString())
        else:
            waiting += [(name, True), *((each, False) for each in reversed(node.input))]
    needed = {name for node in ordered.values() for name in node.input} | {value.name for value in graph.output}
    constants = [
        onnx.TensorProto.FromString(each.SerializeToString()) for each in graph.initializer if each.name in needed
    ]
    for field, values in ((graph.node, list(ordered.values())), (graph.initializer, constants)):
        del field[:]
        field.extend(values)
    del graph.value_info[:]
