"""The places of a model, which are the outputs of its ONNX nodes, and models of a part of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.scope import list_needed, list_read
from tvmbuild.preparing.onnx_graph import find_varying, graph_inputs

Values = Mapping[str, np.ndarray]
_NOT_NUMERIC = frozenset({TensorProto.STRING, TensorProto.BFLOAT16})
_KINDS = "biuf"
_CONSTANTS_ALONE = 4
"""The version of ONNX's format from which a constant need not be listed as an input."""


@dataclass(frozen=True)
class Part:
    """A model of some of the nodes. Values that other nodes compute are its inputs."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    """The numbers of its nodes in `Places.nodes`."""


class Places:
    """The nodes of a model in their order; its methods cut parts from the model.

    ``nodes`` are those whose results depend on an input; their outputs are the places.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.proto = proto
        self.outputs = tuple(value.name for value in proto.graph.output)
        self.initial = {tensor.name: tensor for tensor in proto.graph.initializer}
        known = {value.name for value in graph_inputs(proto)}
        self.nodes: list[onnx.NodeProto] = []
        self._constant: list[onnx.NodeProto] = []
        for node in list_needed(proto.graph.node, self.outputs):
            depends = not known.isdisjoint(list_read(node))
            (self.nodes if depends else self._constant).append(node)
            known.update(node.output if depends else ())
        self.inputs = tuple(value.name for value in graph_inputs(proto))
        self._lengths = find_varying(proto)

    @cached_property
    def producers(self) -> Mapping[str, int]:
        """Return the number of the node that computes each place."""
        return {name: number for number, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def _last_reads(self) -> Mapping[str, int]:
        """Return the number of the last node that reads each place; outputs of the model are read after all nodes."""
        reads = {name: number for number, node in enumerate(self.nodes) for name in list_read(node)}
        return reads | dict.fromkeys(self.outputs, len(self.nodes))

    def list_read(self, number: int) -> tuple[str, ...]:
        """Return the places that a node reads."""
        return tuple(dict.fromkeys(name for name in list_read(self.nodes[number]) if name in self.producers))

    @cached_property
    def marked(self) -> bytes:
        """Return the model with all places of numbers as outputs."""
        marked = onnx.ModelProto()
        marked.CopyFrom(self.proto)
        others = _find_not_numeric(self.proto)
        for name in self.producers:
            if name not in self.outputs and name not in others:
                marked.graph.output.append(onnx.ValueInfoProto(name=name))
        return bytes(marked.SerializeToString())

    def cut_after(self, count: int, values: Values) -> Part:
        """Return the model of the first ``count`` nodes. Its outputs are the places that later nodes need."""
        made = (name for number in range(count) for name in self.nodes[number].output if name)
        needed = [name for name in made if self._last_reads.get(name, -1) >= count and is_comparable(values.get(name))]
        return self.extract(range(count), needed, values)

    def extract(self, nodes: Iterable[int], outputs: Sequence[str], values: Values) -> Part:
        """Return the model of those of the nodes that ``outputs`` need; values from outside of ``nodes`` are inputs."""
        kept, wanted = [], set(outputs)
        for number in sorted(nodes, reverse=True):
            node = self.nodes[number]
            if not wanted.isdisjoint(node.output):
                kept.append(number)
                wanted.update(filter(None, list_read(node)))
        kept.reverse()
        chosen = [self.nodes[number] for number in kept]
        constant = list_needed(self._constant, wanted)
        made = {name for node in (*constant, *chosen) for name in node.output}
        read = dict.fromkeys(name for node in (*constant, *chosen) for name in list_read(node) if name)
        inputs = [name for name in read if name not in made and name not in self.initial and name in values]
        graph = helper.make_graph(
            [*constant, *chosen],
            "part",
            [self._describe(name, values, fixed=True) for name in inputs],
            [self._describe(name, values, fixed=False) for name in outputs],
            [self.initial[name] for name in read if name in self.initial],
        )
        model = onnx.ModelProto()
        model.CopyFrom(self.proto)
        model.graph.CopyFrom(graph)
        model.ir_version = max(model.ir_version, _CONSTANTS_ALONE)
        return Part(bytes(model.SerializeToString()), tuple(inputs), tuple(outputs), tuple(kept))

    def _describe(self, name: str, values: Values, *, fixed: bool) -> onnx.ValueInfoProto:
        value = values[name]
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        shape = None if not fixed and name in self._lengths else value.shape
        return helper.make_tensor_value_info(name, kind, shape)


def is_comparable(value: np.ndarray | None) -> bool:
    """Return whether the value is known, numeric and not empty."""
    return value is not None and value.size > 0 and value.dtype.kind in _KINDS


def _find_not_numeric(proto: onnx.ModelProto) -> set[str]:
    """Return the values that ONNX infers to be sequences, optional values or texts."""
    try:
        inferred = onnx.shape_inference.infer_shapes(proto).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        inferred = proto.graph
    return {
        value.name
        for value in (*inferred.value_info, *inferred.output)
        if value.type.WhichOneof("value") not in {None, "tensor_type"}
        or value.type.tensor_type.elem_type in _NOT_NUMERIC
    }
