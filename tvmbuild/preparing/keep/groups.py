"""Groups of operators in a reduced precision: a product, and the operators after it up to the next product."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import onnx
import onnx.shape_inference

PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
MOVERS = frozenset({"Concat", "Flatten", "MaxPool", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that only move numbers: a product after one reads the numbers that were rounded before it."""
_ROUNDERS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_OPERATIONS_PER_ELEMENT = 6
"""The multiplications of a product that save as much time in 8 bits as the shorter way of one element through memory.

With AVX512-VNNI on one core of an AMD EPYC (Zen 4), the products of efficientnet_lite0 saved about 13 ps a
multiplication, and its depthwise convolutions about 80 ps for each element that they read or write.
"""


@dataclass(frozen=True)
class Group:
    """Operators that stay in floats together."""

    name: str
    """The name of the product, or of an operator without a product before it."""
    nodes: tuple[str, ...]
    """The names of its operators that are computed in the reduced precision."""
    cost: float
    """An estimate of the time that they would save in the reduced precision, in multiplications of a product."""


def list_groups(original: Any, rounded: Collection[str]) -> tuple[Group, ...]:
    """Return the groups in the order of the graph.

    ``original`` is the float model, whose nodes have unique names; ``rounded`` are the names of those that are computed
    in the reduced precision.
    """
    constants = {tensor.name for tensor in original.graph.initializer}
    constants |= {name for node in original.graph.node if node.op_type == "Constant" for name in node.output}
    makers = _find_makers(original)
    shapes = find_shapes(original)
    owners: dict[str, str] = {}
    members: dict[str, list[Any]] = {}
    for node in original.graph.node:
        before = next((makers[name] for name in node.input if name in makers and name not in constants), None)
        owner = node.name if node.op_type in PRODUCTS or before is None else owners[before.name]
        owners[node.name] = owner
        if node.name in rounded:
            members.setdefault(owner, []).append(node)
    return tuple(
        Group(owner, tuple(node.name for node in nodes), sum(_estimate_saving(node, shapes) for node in nodes))
        for owner, nodes in members.items()
    )


def find_dequantised(quantised: Any) -> frozenset[str]:
    """Return the names of the nodes of a QDQ model that compute with quantised inputs.

    Those that only move numbers are left out: in floats, they would put the product after them in floats, too.
    """
    makers = _find_makers(quantised)
    computing = (node for node in quantised.graph.node if node.op_type not in MOVERS | _ROUNDERS)
    return frozenset(node.name for node in computing if any(_is_rounded(name, makers) for name in node.input))


def _is_rounded(name: str, makers: Mapping[str, Any]) -> bool:
    """Return whether a tensor was rounded, and perhaps moved afterwards."""
    maker = makers.get(name)
    if maker is None or maker.op_type not in MOVERS:
        return maker is not None and bool(maker.op_type == "DequantizeLinear")
    return any(_is_rounded(each, makers) for each in maker.input)


def find_shapes(proto: Any) -> dict[str, tuple[int, ...]]:
    """Return name → shape for each tensor whose shape is known. All sizes are fixed."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        found[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    return found


def _find_makers(proto: Any) -> dict[str, Any]:
    return {name: node for node in proto.graph.node for name in node.output}


def _estimate_saving(node: Any, shapes: Mapping[str, tuple[int, ...]]) -> float:
    """Estimate the time that the reduced precision saves in a node, in multiplications.

    A depthwise convolution saves only memory: its short sums do not fill the instructions for 8 bits.
    """
    results = math.prod(shapes.get(node.output[0], ()))
    if node.op_type not in PRODUCTS:
        return float(_OPERATIONS_PER_ELEMENT * results)
    data, weight = (shapes.get(name, ()) for name in node.input[:2])
    moved = float(_OPERATIONS_PER_ELEMENT * (math.prod(data) + results))
    if node.op_type == "ConvTranspose":
        return moved + math.prod(data) * math.prod(weight[1:])
    if node.op_type == "Conv":
        return moved + (results * math.prod(weight[1:]) if weight[1:2] != (1,) else 0)
    return moved + results * (data[-1] if data else 1)
