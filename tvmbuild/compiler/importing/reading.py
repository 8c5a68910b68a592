"""Normalisation of a model that was read: nodes in order, dense weights, and tensors as constants."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, MutableSequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

from tvmbuild.compiler.importing.expand.scope import list_read, subgraphs, walk_nodes
from tvmbuild.errors import TvmbuildError

_OPSET = 17
"""The opset of ONNX's own operators for a model that has only other operators; expansion adds ONNX's operators."""
_MAX_NAMED = 5
"""The largest number of nodes of a cycle that an error names."""
_NUMBERS: Mapping[str, Any] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
_TEXTS = ("value_string", "value_strings")


def read_external_sparse(model: onnx.ModelProto, folder: Path) -> None:
    """Read the external data of sparse tensors, in place, because onnx does not read them; raise the errors of onnx."""
    for tensor in _list_sparse(model):
        for part in (tensor.values, tensor.indices):
            if uses_external_data(part):
                load_external_data_for_tensor(part, str(folder))


def tidy(model: onnx.ModelProto) -> None:
    """Sort the nodes, and make sparse tensors dense and numeric constants tensors, also in subgraphs and functions.

    The result of ZipMap becomes the tensor of scores instead of dictionaries; a model without an opset of ONNX's own
    operators gets one. Raises TvmbuildError if nodes wait for each other in a circle, or if a sparse tensor contradicts
    itself.
    """
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", _OPSET))
    _tidy_graph(model.graph)
    for function in model.functions:
        _tidy_nodes(function.node)


def name_nodes(model: onnx.ModelProto) -> None:
    """Give every node of the graph a unique name, in place: the first node with a name keeps it."""
    taken = {node.name for node in model.graph.node}
    seen = {""}
    for index, node in enumerate(model.graph.node):
        if node.name in seen:
            name = f"{node.op_type}_{index}"
            while name in taken:
                name += "_"
            node.name = name
            taken.add(name)
        seen.add(node.name)


def _list_sparse(model: onnx.ModelProto) -> Iterator[onnx.SparseTensorProto]:
    graphs = [model.graph]
    for node in [*walk_nodes(model.graph), *(node for function in model.functions for node in function.node)]:
        for attribute in node.attribute:
            graphs += subgraphs(attribute)
            if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                yield attribute.sparse_tensor
    for graph in graphs:
        yield from graph.sparse_initializer


def _tidy_graph(graph: onnx.GraphProto) -> None:
    graph.initializer.extend(_make_dense(tensor) for tensor in graph.sparse_initializer)
    del graph.sparse_initializer[:]
    _drop_maps(graph)
    _tidy_nodes(graph.node)


def _drop_maps(graph: onnx.GraphProto) -> None:
    """Replace ZipMap, which returns a dictionary for each row, by the tensor of scores, as packages return tensors."""
    for node in graph.node:
        if node.op_type == "ZipMap" and node.domain == "ai.onnx.ml":
            for value in graph.output:
                if value.name == node.output[0]:
                    value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, None))
            node.CopyFrom(helper.make_node("Identity", node.input, node.output, node.name))


def _tidy_nodes(nodes: MutableSequence[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            for graph in subgraphs(attribute):
                _tidy_graph(graph)
        if node.op_type.startswith("Reduce"):
            _drop_empty_axes(node)
        if node.op_type == "Constant" and node.attribute:
            _make_tensor(node)
    in_order = _sort([*nodes])
    if in_order is not None:
        del nodes[:]
        nodes.extend(in_order)


def _drop_empty_axes(node: onnx.NodeProto) -> None:
    """Drop an empty list of axes, which PyTorch's older exporter writes for all axes, and TVM cannot read."""
    left = [each for each in node.attribute if each.name != "axes" or each.ints]
    if len(left) < len(node.attribute):
        del node.attribute[:]
        node.attribute.extend(left)


def _make_tensor(node: onnx.NodeProto) -> None:
    """Rewrite the value of a Constant as a tensor, which is the only form that other code reads."""
    given = node.attribute[0]
    if given.type == onnx.AttributeProto.SPARSE_TENSOR:
        tensor = _make_dense(given.sparse_tensor)
    elif given.name in _NUMBERS:
        tensor = numpy_helper.from_array(np.array(helper.get_attribute_value(given), _NUMBERS[given.name]))
    elif given.name in _TEXTS:
        texts = [given.s] if given.name == "value_string" else [*given.strings]
        tensor = helper.make_tensor("", TensorProto.STRING, [] if given.name == "value_string" else [len(texts)], texts)
    else:
        return
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("value", tensor))


def _make_dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    values, shape = numpy_helper.to_array(sparse.values), tuple(sparse.dims)
    places = numpy_helper.to_array(sparse.indices) if sparse.HasField("indices") else np.empty(0, np.int64)
    dense = np.zeros(shape, values.dtype)
    try:
        if places.ndim > 1:
            dense[tuple(places.T)] = values
        else:
            dense.reshape(-1)[places] = values
    except (IndexError, ValueError) as error:
        raise TvmbuildError(
            f"the sparse tensor {sparse.values.name!r} has {values.size} values and indices of the shape "
            f"{list(places.shape)}, which do not fit into {list(shape)}",
            "export the model again, or with dense weights",
        ) from error
    return numpy_helper.from_array(dense, sparse.values.name)


def _sort(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto] | None:
    """Return the nodes sorted so that each one follows its inputs; the given order is kept as far as possible.

    The result is None if the nodes are in order already.
    """
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waits = {
        index: {makers[name] for name in list_read(node) if name in makers and makers[name] != index}
        for index, node in enumerate(nodes)
    }
    if all(before < index for index, others in waits.items() for before in others):
        return None
    sorter = TopologicalSorter(waits)
    try:
        sorter.prepare()
    except CycleError as error:
        raise _refuse_cycle([nodes[index] for index in error.args[1]]) from error
    ready: list[int] = []
    result = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        first = heapq.heappop(ready)
        sorter.done(first)
        result.append(nodes[first])
    return result


def _refuse_cycle(cycle: list[onnx.NodeProto]) -> TvmbuildError:
    named = [f"{node.op_type} ({node.name or node.output[0]})" for node in reversed(cycle)]
    more = ["…"] if len(named) > _MAX_NAMED else []
    return TvmbuildError(
        f"its nodes wait for each other in a circle: {' → '.join(named[:_MAX_NAMED] + more)}",
        "export the model again: no order of its nodes can be computed",
    )
