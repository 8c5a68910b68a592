"""The change of a graph for one sample into one for a batch: it removes the exporter's constants for the batch of 1.

Only provable cases are changed: where ONNX's shape inference finds a first dimension of 1 before and after an operator,
its samples lie one after the other on both sides. Everything else is left as it is, and batch_check.py names the node
that does not work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmbuild.preparing.batch import Batch

_TELL_SHAPES = frozenset({"Shape", "Size"})
"""Operators whose results never depend on samples, only on shapes."""


def rebatch(single: Any, batch: Batch) -> Any:
    """Return a copy of the ModelProto for a batch; its inputs are static and of one sample."""
    proto = onnx.ModelProto()
    proto.CopyFrom(single)
    for value in proto.graph.input:
        if value.name in batch.inputs:
            value.type.tensor_type.shape.dim[batch.inputs[value.name]].dim_value = batch.size
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    rewriter = _Rewriter(proto.graph, infer_shapes(single), find_dependent(proto.graph, batch), batch.size)
    for node in list(proto.graph.node):
        rewriter.take(node)
    del proto.graph.node[:]
    proto.graph.node.extend(rewriter.nodes)
    return proto


def infer_shapes(proto: Any) -> dict[str, tuple[int, ...]]:
    """Return the known shapes of a model's tensors that are complete."""
    graph = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(int(dim.dim_value) for dim in tensor.shape.dim)
    return shapes


def find_dependent(graph: Any, batch: Batch) -> set[str]:
    """Return the tensors that are computed from samples, and not from their shape only."""
    found = set(batch.inputs)
    for node in graph.node:
        if node.op_type not in _TELL_SHAPES and found.intersection(list_reads(node)):
            found.update(name for name in node.output if name)
    return found


def list_reads(node: Any) -> list[str]:
    """Return the tensors that a node reads, those of its inner graphs too."""
    inner = [graph for each in node.attribute for graph in ([each.g] if each.HasField("g") else each.graphs)]
    return [*node.input, *(name for graph in inner for each in graph.node for name in list_reads(each))]


class _Rewriter:
    """Changes the nodes of a graph to a batch, one after the other."""

    def __init__(self, graph: Any, shapes: Mapping[str, tuple[int, ...]], dependent: set[str], size: int) -> None:
        self.nodes: list[Any] = []
        self._shapes, self._dependent, self._size = shapes, dependent, size
        self._taken = {*shapes, *(name for node in graph.node for name in (*node.input, *node.output, node.name))}
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._constants[node.output[0]] = node.attribute[0].t

    def take(self, node: Any) -> None:
        """Add the node, changed if necessary."""
        rule = _RULES.get(node.op_type)
        if rule is not None and node.domain in {"", "ai.onnx"} and self._dependent.intersection(node.input):
            rule(self, node)
        self.nodes.append(node)

    def reshape(self, node: Any) -> None:
        """Copy the first dimension from the reshaped tensor instead of a constant 1."""
        target = self._read(node, 1)
        if target is None or not target.size or target[0] != 1 or not self._keeps_first(node):
            return
        if any(each.name == "allowzero" and each.i for each in node.attribute):
            if 0 in target:
                return
            kept = [each for each in node.attribute if each.name != "allowzero"]
            del node.attribute[:]
            node.attribute.extend(kept)
        self._write(node, 1, [0, *target[1:]])

    def resize(self, node: Any) -> None:
        """Set the first of the given sizes to the batch."""
        sizes = self._read(node, 3)
        if sizes is not None and sizes.size and sizes[0] == 1 and self._keeps_first(node):
            self._write(node, 3, [self._size, *sizes[1:]])

    def slice(self, node: Any) -> None:
        """Let a Slice that takes the one sample of the first dimension take all samples."""
        starts, ends, axes, steps = (self._read(node, index) for index in (1, 2, 3, 4))
        if starts is None or ends is None or not self._keeps_first(node) or (axes is None and len(node.input) > 3):
            return
        places = [0] if axes is None else [index for index, axis in enumerate(axes) if axis in (0, -self._rank(node))]
        if not places or (steps is not None and steps[places[0]] != 1) or (steps is None and len(node.input) > 4):
            return
        starts[places[0]], ends[places[0]] = 0, np.iinfo(ends.dtype).max
        self._write(node, 1, starts)
        self._write(node, 2, ends)

    def concat(self, node: Any) -> None:
        """Repeat an input without samples for each sample when it is joined with samples along another axis."""
        axis = next(each.i for each in node.attribute if each.name == "axis")
        for index, name in enumerate(node.input):
            shape = self._shapes.get(name, ())
            if name not in self._dependent and shape[:1] == (1,) and axis % len(shape) != 0:
                node.input[index] = self._repeat(name, 0, len(shape))

    def recurrent(self, node: Any) -> None:
        """Repeat the initial state, common to all samples, for each sample: its axes are directions, batch, hidden."""
        for index in (5, 6):
            name = node.input[index] if len(node.input) > index else ""
            shape = self._shapes.get(name, ())
            if name and name not in self._dependent and len(shape) == 3 and shape[1] == 1:
                node.input[index] = self._repeat(name, 1, 3)

    def _keeps_first(self, node: Any) -> bool:
        before, after = (self._shapes.get(name, ()) for name in (node.input[0], node.output[0]))
        return before[:1] == after[:1] == (1,)

    def _rank(self, node: Any) -> int:
        return len(self._shapes[node.input[0]])

    def _read(self, node: Any, index: int) -> np.ndarray | None:
        """Return a copy of a constant input's value; None if it is not constant."""
        name = node.input[index] if len(node.input) > index else ""
        return numpy_helper.to_array(self._constants[name]).copy() if name in self._constants else None

    def _write(self, node: Any, index: int, value: Any) -> None:
        """Give the node its own constant, because others may share the one that it had."""
        old = self._constants[node.input[index]]
        array = np.asarray(value, dtype=helper.tensor_dtype_to_np_dtype(old.data_type))
        node.input[index] = self._add(array, node.input[index])

    def _repeat(self, name: str, axis: int, rank: int) -> str:
        shape = np.ones(rank, np.int64)
        shape[axis] = self._size
        made = self._free(name)
        self.nodes.append(helper.make_node("Expand", [name, self._add(shape, name)], [made], made))
        return made

    def _add(self, value: np.ndarray, like: str) -> str:
        name = self._free(like)
        self._constants[name] = numpy_helper.from_array(value, name)
        self.nodes.append(helper.make_node("Constant", [], [name], name, value=self._constants[name]))
        return name

    def _free(self, like: str) -> str:
        """Return a name that no tensor has."""
        name, number = f"{like}_batch", 1
        while name in self._taken:
            number += 1
            name = f"{like}_batch{number}"
        self._taken.add(name)
        return name


_RULES: dict[str, Callable[[_Rewriter, Any], None]] = {
    "Reshape": _Rewriter.reshape,
    "Resize": _Rewriter.resize,
    "Slice": _Rewriter.slice,
    "Concat": _Rewriter.concat,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _Rewriter.recurrent),
}
