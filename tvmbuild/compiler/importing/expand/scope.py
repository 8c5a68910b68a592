"""The graph around a node as an expansion rule sees it, and the ways in which a rule adds to the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmbuild.compiler.importing.refusals import OWN

Nodes: TypeAlias = list[onnx.NodeProto]


class Scope:
    """The lookup of types and constants of a model's values; it also makes unused names."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Infer the types of the values of ``model``; rules add constants to its graph."""
        self.model = model
        self.opset = find_opset(model)
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._types = _infer_types(model)
        self._taken = {name for node in walk_nodes(model.graph) for name in (*node.input, *node.output)}
        self._taken |= self._tensors.keys() | self._types.keys()
        self._numbers = count()
        self.sequences = _find_sequences(model.graph)
        """The names of the elements of each known sequence, by the sequence's name."""

    @cached_property
    def _read(self) -> frozenset[str]:
        read = {name for node in self.model.graph.node for name in list_read(node)}
        return frozenset(read | {value.name for value in self.model.graph.output})

    @cached_property
    def _makers(self) -> dict[str, onnx.NodeProto]:
        return {name: node for node in self.model.graph.node for name in node.output}

    def maker(self, name: str, operator: str = "") -> onnx.NodeProto | None:
        """Return the node that computes a value, or None if there is none, or if it is not one of the operator."""
        node = self._makers.get(name)
        return node if node is not None and operator in {"", node.op_type} else None

    def constant(self, name: str) -> np.ndarray | None:
        """Return the array of a value, or None if the value is not constant."""
        tensor = self._tensors.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def is_constant(self, name: str) -> bool:
        """Return whether the value is a constant."""
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a value, or None if a dimension is unknown."""
        if name in self._tensors:
            return tuple(self._tensors[name].dims)
        tensor = self._types[name].tensor_type if name in self._types else None
        if tensor is None or not tensor.HasField("shape"):
            return None
        dims = tensor.shape.dim
        return tuple(dim.dim_value for dim in dims) if all(dim.HasField("dim_value") for dim in dims) else None

    def element_type(self, name: str) -> int | None:
        """Return the ``TensorProto.DataType`` of a value, or None if it is unknown."""
        if name in self._tensors:
            return int(self._tensors[name].data_type)
        kind = int(self._types[name].tensor_type.elem_type) if name in self._types else 0
        return kind or None

    def is_read(self, name: str) -> bool:
        """Return whether the value is an output of the model, or some node reads it."""
        return name in self._read

    def fresh(self, hint: str) -> str:
        """Return a name that no value has yet; it begins with ``hint``."""
        name = next(name for i in self._numbers if (name := f"{hint}.{i}") not in self._taken)
        self._taken.add(name)
        return name

    def add_constant(self, array: Any, hint: str = "constant") -> str:
        """Add an initializer with this array, and return its name."""
        name = self.fresh(hint)
        self.set_constant(name, array)
        return name

    def set_type(self, name: str, kind: int, shape: Sequence[int]) -> None:
        """Set the type and the shape of a value that one of our own operators makes, because ONNX cannot infer them."""
        value = helper.make_tensor_value_info(name, kind, shape)
        self.model.graph.value_info.append(value)
        self._types[name] = value.type
        if all(entry.domain != OWN for entry in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(OWN, 1))  # otherwise ONNX infers no types at all

    def set_constant(self, name: str, array: Any) -> None:
        """Make the value a constant; no node may compute it any more."""
        tensor = numpy_helper.from_array(np.asarray(array), name)
        self.model.graph.initializer.append(tensor)
        self._tensors[name] = tensor

    def adopt_constants(self, tensors: Iterable[onnx.TensorProto], hint: str) -> dict[str, str]:
        """Add a subgraph's initializers to the model, and return their new names by their old names."""
        return {tensor.name: self.add_constant(numpy_helper.to_array(tensor), hint) for tensor in tensors}

    def rename_into(self, graph: onnx.GraphProto, names: dict[str, str], hint: str) -> Nodes:
        """Return the nodes of ``graph`` with values renamed by ``names``; other values that they make get fresh names.

        The initializers of ``graph`` become initializers of the model. All new names are added to ``names``.
        """
        missing = [tensor for tensor in graph.initializer if tensor.name not in names]
        names |= self.adopt_constants(missing, hint)
        nodes = []
        for node in graph.node:
            for output in filter(None, node.output):
                names.setdefault(output, self.fresh(hint))
            nodes.append(rename_node(node, names))
        return nodes


Rule: TypeAlias = Callable[[onnx.NodeProto, Scope], Nodes | None]
"""An expansion rule, which returns the nodes that replace a node, or None to leave the node."""


def rename_node(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    """Return a copy with renamed inputs and outputs; values that its subgraphs read from outside are renamed, too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for attribute in copy.attribute:
        for graph in subgraphs(attribute):
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {output for inner in graph.node for output in inner.output}
            outer = {old: new for old, new in names.items() if old not in own}
            renamed = [rename_node(inner, outer) for inner in graph.node]
            del graph.node[:]
            graph.node.extend(renamed)
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
    return copy


def subgraphs(attribute: onnx.AttributeProto) -> Iterable[onnx.GraphProto]:
    """Return the subgraphs in an attribute of a node."""
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs


def walk_nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    """Yield the graph's nodes and the nodes of all its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                yield from walk_nodes(inner)


def list_read(node: onnx.NodeProto) -> Iterable[str]:
    """Yield the names of the values that the node reads, including values that its subgraphs read from outside."""
    yield from node.input
    for attribute in node.attribute:
        for graph in subgraphs(attribute):
            own = {name for inner in graph.node for name in inner.output} | {value.name for value in graph.input}
            read = {name for inner in graph.node for name in list_read(inner)}
            yield from (read | {value.name for value in graph.output}) - own


def list_needed(nodes: Sequence[onnx.NodeProto], wanted: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes, in their order, that the wanted values need."""
    needed, found = set(wanted), []
    for node in reversed(nodes):
        if not needed.isdisjoint(filter(None, node.output)):
            found.append(node)
            needed.update(list_read(node))
    return found[::-1]


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the node's attributes by name, as Python values with decoded strings."""
    values = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {name: _decode(value) for name, value in values.items()}


def find_opset(model: onnx.ModelProto) -> int:
    """Return the opset of ONNX's own operators in the model, or 1 if the model names none."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)


def _find_sequences(graph: onnx.GraphProto) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type in {"SequenceConstruct", "SequenceEmpty"}:
            found[node.output[0]] = list(node.input)
        if node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def _decode(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Sequence) and value and isinstance(value[0], bytes):
        return [each.decode() for each in value]
    return value


def _infer_types(model: onnx.ModelProto) -> dict[str, Any]:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):  # above 2 GB, or an invalid graph
        inferred = model.graph
    return {value.name: value.type for value in (*inferred.input, *inferred.value_info, *inferred.output)}
