"""Attention in a float model. Quantisers treat transformers in another way than convolutional networks."""

from __future__ import annotations

from typing import Any

from tvmbuild.preparing.keep.groups import PRODUCTS
from tvmbuild.preparing.onnx_graph import comes_of

_PASSING = frozenset({"Cast", "Dropout", "Identity", "Mul", "Reshape", "Squeeze", "Transpose", "Unsqueeze", "Where"})
"""The operators between the softmax of an attention and the product with the values."""
_WHOLE = frozenset({"Attention", "MultiHeadAttention"})
_LEAST = 1 / 16
"""The least share of attentions among the products of a transformer.

A block of a transformer has one attention among 4 to 12 products. A convolutional network with an attention or two has
less: yolo11n has 1 among 90 products, and its convolutions are what is to become integers.
"""


def is_transformer(proto: Any) -> bool:
    """Return whether attentions make up much of the products of the ONNX ModelProto.

    An attention is a product of a softmax's results and other activations. The product with a constant, by which
    detectors find the mean of a distribution, is none.
    """
    makers = {name: node for node in proto.graph.node for name in node.output}
    products = sum(node.op_type in PRODUCTS | _WHOLE | {"Einsum"} for node in proto.graph.node)
    attentions = sum(node.op_type in _WHOLE for node in proto.graph.node)
    attentions += sum(
        any(comes_of(name, makers, "Softmax", _PASSING) for name in node.input) for node in _find_products(proto)
    )
    return attentions > 0 and attentions >= _LEAST * products


def list_products_of_activations(proto: Any) -> list[str]:
    """Return the names of the products without a constant operand in a transformer, else none.

    They stay in floats: scores have outliers, and the package computes an attention of floats as one kernel.
    """
    return [node.name for node in _find_products(proto)] if is_transformer(proto) else []


def _find_products(proto: Any) -> list[Any]:
    """Return the products without a constant operand."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    constants |= {name for node in proto.graph.node if node.op_type == "Constant" for name in node.output}
    products = (node for node in proto.graph.node if node.op_type in {"Einsum", "Gemm", "MatMul"})
    return [node for node in products if constants.isdisjoint(node.input[:2])]
