"""Expansion of matrix products and convolutions with fused factors, transposed operands or activations."""

from __future__ import annotations

import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_ACTIVATIONS = {"Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
"""The names of each activation's parameters, in order."""


def fused_matmul(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand FusedMatMul: a MatMul with a factor, with transposed operands, or with the batch axis after the rows.

    Return None if a shape is unknown.
    """
    composer = NodeComposer(node, scope)
    if composer.lacks_shapes(0, 1):
        return None
    operands = []
    for place, side in enumerate("AB"):
        rank = len(composer.known_shape(place) or ())
        perm = list(range(rank))
        if composer.attributes.get(f"transBatch{side}", 0) and rank > 2:
            perm = [*perm[1:-1], perm[0], perm[-1]]
        if composer.attributes.get(f"trans{side}", 0) and rank > 1:
            perm = [*perm[:-2], perm[-1], perm[-2]]
        plain = perm == list(range(rank))
        operands.append(node.input[place] if plain else composer.add("Transpose", node.input[place], perm=perm))
    product = composer.add("MatMul", *operands)
    alpha = composer.attributes.get("alpha", 1.0)
    composer.name(product if alpha == 1 else composer.add("Mul", product, composer.number(alpha)), node.output[0])
    return composer.nodes


def fused_gemm(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand FusedGemm, which is a Gemm with an activation."""
    composer = NodeComposer(node, scope)
    names = ("alpha", "beta", "transA", "transB")
    given = {name: composer.attributes[name] for name in names if name in composer.attributes}
    product = composer.add("Gemm", *node.input, **given)
    parameters = [composer.attributes.get(f"activation_{name}", None) for name in ("alpha", "beta")]
    composer.name(_activate(composer, product, [each for each in parameters if each is not None]), node.output[0])
    return composer.nodes


def fused_conv(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand FusedConv, which is a convolution with a sum and an activation."""
    composer = NodeComposer(node, scope)
    own = ("activation", "activation_params")
    given = {name: value for name, value in composer.attributes.items() if name not in own}
    inputs = [name for name in node.input[:3] if name]
    value = composer.add("Conv", *inputs, **given)
    if composer.input(3):
        value = composer.add("Add", value, composer.input(3))
    parameters = composer.attributes.get("activation_params", [])
    composer.name(_activate(composer, value, list(parameters)), node.output[0])
    return composer.nodes


def _activate(composer: NodeComposer, value: str, parameters: list[float]) -> str:
    kind = composer.attributes.get("activation", "")
    if not kind:
        return value
    if kind == "Clip":
        return composer.add("Clip", value, *(composer.number(each) for each in parameters))
    if kind not in _ACTIVATIONS:
        raise composer.refuse(f"its activation {kind} is not known here")
    return composer.add(kind, value, **dict(zip(_ACTIVATIONS[kind], parameters, strict=False)))
