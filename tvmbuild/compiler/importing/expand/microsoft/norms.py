"""Expansion of normalisations along the last axis in com.microsoft, with the sums before them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_AXES_AS_INPUT = 18
_EPSILON = 1e-12
"""The default epsilon of com.microsoft's operators; the default in ONNX is 1e-5."""


def skip_layer_normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SkipLayerNormalization: the normalised sum of the value, the skip connection and a bias."""
    composer = NodeComposer(node, scope)
    composer.refuse_outputs((1, 2))
    total = _add_up(composer, (0, 1, 4))
    scale = composer.add("Mul", _normalize(composer, total, _EPSILON), composer.input(2))
    composer.name(composer.add("Add", scale, composer.input(3)) if composer.input(3) else scale, node.output[0])
    composer.name(total, composer.output(3))
    return composer.nodes


def skip_simplified_layer_normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SkipSimplifiedLayerNormalization: the same sum, normalised without subtracting the mean."""
    composer = NodeComposer(node, scope)
    composer.refuse_outputs((1, 2))
    total = _add_up(composer, (0, 1, 3))
    normed = _divide_by_root(composer, total, _EPSILON)
    composer.name(composer.add("Mul", normed, composer.input(2)), node.output[0])
    composer.name(total, composer.output(3))
    return composer.nodes


def simplified_layer_normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand SimplifiedLayerNormalization, the RMS normalisation that ONNX Runtime writes without a domain.

    Return None if the axis is not -1 and the shape is unknown. Raises NodeError if the axis is not the last one.
    """
    composer = NodeComposer(node, scope)
    composer.refuse_outputs((1,))
    shape = composer.known_shape(0)
    axis = composer.attributes.get("axis", -1)
    if axis != -1 and shape is None:
        return None
    if axis not in (-1, len(shape or ()) - 1):
        raise composer.refuse("it is not along the last axis")
    normed = _divide_by_root(composer, node.input[0], 1e-5)
    composer.name(composer.add("Mul", normed, composer.input(1)), node.output[0])
    return composer.nodes


def embed_layer_normalization(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand EmbedLayerNormalization: the normalised sum of a token's embeddings of word, position and segment.

    Return None if the shape is unknown.
    """
    composer = NodeComposer(node, scope)
    words, segments, places = composer.input(0), composer.input(1), composer.input(8)
    shape = composer.known_shape(0)
    if shape is None:
        return None
    if bool(segments) != bool(composer.input(4)):
        raise composer.refuse("it has segments without their embedding, or the other way round")
    total = composer.add("Gather", composer.input(2), words)
    if places:
        place = composer.add("Gather", composer.input(3), places)
    else:
        first, last, axis = composer.integers(0), composer.integers(shape[1]), composer.integers(0)
        place = composer.add("Slice", composer.input(3), first, last, axis)
    total = composer.add("Add", total, place)
    if segments:
        total = composer.add("Add", total, composer.add("Gather", composer.input(4), segments))
    scaled = composer.add("Mul", _normalize(composer, total, _EPSILON), composer.input(5))
    composer.name(composer.add("Add", scaled, composer.input(6)), node.output[0])
    composer.name(total, composer.output(2))
    if composer.output(1):
        composer.name(_count_tokens(composer, shape[0]), composer.output(1))
    return composer.nodes


def _count_tokens(composer: NodeComposer, batch: int) -> str:
    mask = composer.input(7)
    if not mask:
        return composer.constant(np.zeros(batch, np.int32))
    if composer.scope.opset < 13:
        return composer.add("ReduceSum", mask, axes=[1], keepdims=0)
    return composer.add("ReduceSum", mask, composer.integers(1), keepdims=0)


def _add_up(composer: NodeComposer, places: tuple[int, ...]) -> str:
    first, *more = [composer.input(place) for place in places if composer.input(place)]
    for each in more:
        first = composer.add("Add", first, each)
    return first


def _normalize(composer: NodeComposer, value: str, epsilon: float) -> str:
    return _divide_by_root(composer, composer.add("Sub", value, _mean(composer, value)), epsilon)


def _divide_by_root(composer: NodeComposer, value: str, default: float) -> str:
    """Divide the value by the root of its mean square; half precision is too narrow for squares, so use float32."""
    epsilon, kind = composer.attributes.get("epsilon", default), composer.kind
    narrow = kind == TensorProto.FLOAT16
    if narrow:
        composer.kind, value = TensorProto.FLOAT, composer.add("Cast", value, to=TensorProto.FLOAT)
    squares = _mean(composer, composer.add("Mul", value, value))
    deviation = composer.add("Sqrt", composer.add("Add", squares, composer.number(epsilon)))
    result = composer.add("Div", value, deviation)
    composer.kind = kind
    return composer.add("Cast", result, to=kind) if narrow else result


def _mean(composer: NodeComposer, value: str) -> str:
    if composer.scope.opset >= _AXES_AS_INPUT:
        return composer.add("ReduceMean", value, composer.integers(-1), keepdims=1)
    return composer.add("ReduceMean", value, axes=[-1], keepdims=1)
