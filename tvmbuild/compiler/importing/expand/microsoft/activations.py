"""Expansion of the forms of GELU in com.microsoft."""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_CUBIC = 0.044715


def exact_gelu(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Gelu and BiasGelu to operators with Erf."""
    composer = NodeComposer(node, scope)
    value = _with_bias(composer)
    inner = composer.add("Erf", composer.add("Mul", value, composer.number(np.sqrt(0.5))))
    grown = composer.add("Add", inner, composer.number(1))
    composer.name(composer.add("Mul", composer.add("Mul", value, composer.number(0.5)), grown), node.output[0])
    return composer.nodes


def fast_gelu(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand FastGelu to operators with Tanh."""
    composer = NodeComposer(node, scope)
    value = _with_bias(composer)
    cube = composer.add("Mul", composer.add("Mul", value, value), composer.add("Mul", value, composer.number(_CUBIC)))
    scaled = composer.add("Mul", composer.add("Add", value, cube), composer.number(np.sqrt(2 / np.pi)))
    grown = composer.add("Add", composer.add("Tanh", scaled), composer.number(1))
    composer.name(composer.add("Mul", composer.add("Mul", value, composer.number(0.5)), grown), node.output[0])
    return composer.nodes


def quick_gelu(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand QuickGelu, which is x · sigmoid(alpha · x)."""
    composer = NodeComposer(node, scope)
    value, alpha = node.input[0], composer.attributes.get("alpha", 1.702)
    scaled = value if alpha == 1 else composer.add("Mul", value, composer.number(alpha))
    composer.name(composer.add("Mul", value, composer.add("Sigmoid", scaled)), node.output[0])
    return composer.nodes


def _with_bias(composer: NodeComposer) -> str:
    value, bias = composer.node.input[0], composer.input(1)
    return composer.add("Add", value, bias) if bias else value
