"""Patterns of many nodes that exporters write out, as PyTorch's own functions: attention, GELU, linear layers.

Each becomes one node of its own domain, for which onnx2torch gets a converter. An unknown form stays as it is; `fuse`
returns how many of each it found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

DOMAIN = "torch"


class Attention(nn.Module):  # type: ignore[misc]
    """PyTorch's fused attention; the keys come transposed, as a product wants them."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, queries: Any, keys: Any, values: Any, mask: Any = None) -> Any:
        """Return softmax(queries x keys * scale + mask) x values."""
        keys = keys.transpose(-2, -1)
        return nn.functional.scaled_dot_product_attention(queries, keys, values, mask, scale=self.scale)


class Linear(nn.Module):  # type: ignore[misc]
    """A product with weights and a bias."""

    def __init__(self, weights: np.ndarray, bias: np.ndarray) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.from_numpy(np.ascontiguousarray(weights.T)), requires_grad=False)
        self.bias = nn.Parameter(torch.from_numpy(bias.copy()), requires_grad=False)

    def forward(self, value: Any) -> Any:
        """Return the product."""
        return nn.functional.linear(value, self.weights, self.bias)


class Nodes:
    """A graph's nodes by their outputs and by their readers."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.constants = {each.name: each for each in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        outputs = {value.name for value in graph.output}
        self.readers: dict[str, list[Any]] = {name: [None] for name in outputs}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def array(self, name: str) -> np.ndarray | None:
        """Return a constant's value."""
        return numpy_helper.to_array(self.constants[name]) if name in self.constants else None

    def reader(self, node: Any, kind: str) -> Any:
        """Return the only reader of a node if it is of that kind."""
        readers = self.readers.get(node.output[0], [])
        return readers[0] if len(readers) == 1 and readers[0] is not None and readers[0].op_type == kind else None

    def maker(self, name: str, kind: str) -> Any:
        """Return the node that writes a value if it is of that kind and nobody else reads the value."""
        node = self.makers.get(name)
        return node if node is not None and node.op_type == kind and len(self.readers[name]) == 1 else None

    def scalar_and_rest(self, node: Any) -> tuple[float, str] | None:
        """Return the constant number of a node of two inputs, and its other input."""
        for one, other in ((0, 1), (1, 0)):
            value = self.array(node.input[one])
            if value is not None and value.size == 1:
                return float(value.reshape(-1)[0]), node.input[other]
        return None


def fuse(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Counter[str]]:
    """Return the model with each match as one node, and the number of matches of each kind."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    found: Counter[str] = Counter()
    for kind, find in FINDERS.items():
        for name in [node.output[0] for node in model.graph.node]:
            nodes = Nodes(model.graph)
            made = find(nodes, nodes.makers[name]) if name in nodes.makers else None
            if made is not None:
                found[kind] += 1
                _replace(model.graph, *made)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    register()
    return model, found


def _replace(graph: onnx.GraphProto, new: Any, old: list[Any]) -> None:
    """Put a node in the place of the last of the nodes that it replaces."""
    gone = {node.output[0] for node in old}
    kept = list(graph.node)
    last = max(index for index, node in enumerate(kept) if node.output[0] in gone)
    kept[last] = new
    left = [node for index, node in enumerate(kept) if index == last or node.output[0] not in gone]
    del graph.node[:]
    graph.node.extend(left)


def find_attention(nodes: Nodes, node: Any) -> tuple[Any, list[Any]] | None:
    """Find Softmax(A x B [* c] [+ mask]) x C."""
    if node.op_type != "Softmax":
        return None
    product, old, mask, scale = nodes.reader(node, "MatMul"), [node], None, 1.0
    source = node.input[0]
    if (added := nodes.maker(source, "Add")) is not None:
        scores = next(
            (
                name
                for name in added.input
                if nodes.maker(name, "Mul") or nodes.maker(name, "Div") or nodes.maker(name, "MatMul")
            ),
            None,
        )
        if scores is None:
            return None
        mask = next(name for name in added.input if name != scores)
        old.append(added)
        source = scores
    for kind in ("Mul", "Div"):
        if (scaled := nodes.maker(source, kind)) is not None and (split := nodes.scalar_and_rest(scaled)) is not None:
            scale = split[0] if kind == "Mul" else 1 / split[0]
            source = split[1]
            old.append(scaled)
    scores = nodes.maker(source, "MatMul")
    if scores is None or product is None or product.input[0] != node.output[0]:
        return None
    given = [scores.input[0], scores.input[1], product.input[1], *([mask] if mask else [])]
    made = helper.make_node("Attention", given, [product.output[0]], domain=DOMAIN, scale=scale)
    return made, [*old, scores, product]


def find_gelu(nodes: Nodes, node: Any) -> tuple[Any, list[Any]] | None:
    """Find x * 0.5 * (1 + Erf(x / sqrt(2))), in any order of multiplication."""
    if node.op_type != "Erf":
        return None
    inner = nodes.maker(node.input[0], "Mul") or nodes.maker(node.input[0], "Div")
    split, added = inner and nodes.scalar_and_rest(inner), nodes.reader(node, "Add")
    multiplied = added and nodes.reader(added, "Mul")
    if not split or multiplied is None:
        return None
    x, old = split[1], [node, inner, added, multiplied]
    other = next(name for name in multiplied.input if name != added.output[0])
    if other == x:
        half = nodes.reader(multiplied, "Mul")
        if half is None:
            return None
        return helper.make_node("Gelu", [x], [half.output[0]], domain=DOMAIN), [*old, half]
    half = nodes.maker(other, "Mul")
    if half is None or x not in half.input:
        return None
    return helper.make_node("Gelu", [x], [multiplied.output[0]], domain=DOMAIN), [*old, half]


def find_linear(nodes: Nodes, node: Any) -> tuple[Any, list[Any]] | None:
    """Find a MatMul with constant weights of two dimensions, and an Add of a constant vector."""
    if node.op_type != "MatMul":
        return None
    weights, added = nodes.array(node.input[1]), nodes.reader(node, "Add")
    if weights is None or weights.ndim != 2 or added is None:
        return None
    bias = next(name for name in added.input if name != node.output[0])
    value = nodes.array(bias)
    if value is None or value.shape != weights.shape[1:]:
        return None
    return helper.make_node("Linear", [node.input[0], node.input[1], bias], [added.output[0]], domain=DOMAIN), [
        node,
        added,
    ]


FINDERS: dict[str, Callable[[Nodes, Any], tuple[Any, list[Any]] | None]] = {
    "attention": find_attention,
    "gelu": find_gelu,
    "linear": find_linear,
}


def register() -> None:
    """Register the nodes in onnx2torch."""
    from onnx2torch.node_converters.registry import _CONVERTER_REGISTRY as KNOWN  # noqa: PLC0415
    from onnx2torch.node_converters.registry import OperationDescription  # noqa: PLC0415
    from onnx2torch.utils.common import OnnxMapping, OperationConverterResult, onnx_mapping_from_node  # noqa: PLC0415

    def attention(node: Any, _graph: Any) -> Any:
        return OperationConverterResult(Attention(float(node.attributes["scale"])), onnx_mapping_from_node(node))

    def gelu(node: Any, _graph: Any) -> Any:
        return OperationConverterResult(nn.GELU(), onnx_mapping_from_node(node))

    def linear(node: Any, graph: Any) -> Any:
        weights, bias = (graph.initializers[name].to_numpy() for name in node.input_values[1:])
        mapping = OnnxMapping(inputs=(node.input_values[0],), outputs=tuple(node.output_values))
        return OperationConverterResult(Linear(weights, bias), mapping)

    for kind, convert in (("Attention", attention), ("Gelu", gelu), ("Linear", linear)):
        KNOWN[OperationDescription(domain=DOMAIN, operation_type=kind, version=1)] = convert
