"""Expansion of com.microsoft's Attention and MultiHeadAttention to products, added masks and Softmax.

Exporters write attention in this form, too.
"""

from __future__ import annotations

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_MASKED = -10000.0
_FLAT, _PACKED = 3, 5
Shape = tuple[int, ...]


def attention(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Attention, which projects query, key and value in one product; return None if a shape is unknown."""
    composer = NodeComposer(node, scope)
    composer.refuse_attributes({"do_rotary": 0, "past_present_share_buffer": 0})
    composer.refuse_inputs({6: "past_sequence_length"})
    if composer.lacks_shapes(0, 1, 3, 4):
        return None
    shape, weights = composer.known_shape(0) or (), composer.known_shape(1) or ()
    heads = composer.attributes["num_heads"]
    widths = composer.attributes.get("qkv_hidden_sizes") or [weights[1] // 3] * 3
    product = composer.add("MatMul", node.input[0], node.input[1])
    if composer.input(2):
        product = composer.add("Add", product, composer.input(2))
    query, key, value = (composer.split_heads(each, heads) for each in composer.split(product, 2, widths))
    past = 0
    if composer.input(4):
        past = (composer.known_shape(4) or ())[3]
        old = [composer.squeeze(each, [0]) for each in composer.split(composer.input(4), 0, [1, 1])]
        key, value = (composer.concat(pair, 2) for pair in zip(old, (key, value), strict=True))
    composer.name(composer.stack([key, value], 0) if composer.output(1) else key, composer.output(1))
    tokens = (shape[1], past + shape[1])
    masks = [*_causal(composer, tokens), *_mask(composer, 3, tokens), composer.input(5)]
    scores = composer.add("MatMul", query, composer.add("Transpose", key, perm=[0, 1, 3, 2]))
    weighted = composer.add("MatMul", soften(composer, scores, widths[0] // heads, masks), value)
    composer.name(composer.join_heads(weighted), node.output[0])
    return composer.nodes


def multi_head_attention(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand MultiHeadAttention, whose inputs are already projected, except for an optional bias.

    Return None if a shape is unknown.
    """
    composer = NodeComposer(node, scope)
    composer.refuse_inputs({8: "past_sequence_length", 9: "cache_indirection"})
    composer.refuse_outputs((3,))
    if composer.lacks_shapes(0, 1, 2, 4, 6):
        return None
    query, key, value = _operands(composer)
    shape, keys = composer.known_shape(0) or (), composer.known_shape(1)
    tokens, total = shape[1], shape[1] if keys is None else keys[2 if len(keys) == 4 else 1]
    size = shape[-1] if len(shape) == _PACKED else shape[2] // composer.attributes["num_heads"]
    if composer.input(6):
        key = composer.concat([composer.input(6), key], 2)
        value = composer.concat([composer.input(7), value], 2)
        total += (composer.known_shape(6) or ())[2]
    composer.name(key, composer.output(1))
    composer.name(value, composer.output(2))
    lengths = (tokens, total)
    masks = [*_causal(composer, lengths), *_mask(composer, 4, lengths), composer.input(5)]
    scores = composer.add("MatMul", query, composer.add("Transpose", key, perm=[0, 1, 3, 2]))
    weighted = composer.add("MatMul", soften(composer, scores, size, masks), value)
    composer.name(composer.join_heads(weighted), node.output[0])
    return composer.nodes


def soften(composer: NodeComposer, scores: str, size: int, masks: list[str]) -> str:
    """Scale the scores, add the masks (empty names are skipped), and return the Softmax."""
    scale = composer.attributes.get("scale", 0.0) or size**-0.5
    scores = composer.add("Mul", scores, composer.number(scale))
    for mask in filter(None, masks):
        scores = composer.add("Add", scores, mask)
    return composer.add("Softmax", scores, axis=-1)


def _operands(composer: NodeComposer) -> list[str]:
    """Return the names of query, key and value, each [batch, heads, tokens, size]."""
    heads, shape = composer.attributes["num_heads"], composer.known_shape(0) or ()
    keys, values = composer.known_shape(1), composer.known_shape(2)
    if len(shape) == _PACKED:  # [batch, tokens, heads, 3, size]
        parts = [composer.squeeze(each, [3]) for each in composer.split(composer.input(0), 3, [1, 1, 1])]
    elif keys is not None and len(keys) == _PACKED:
        parts = [composer.reshape(composer.input(0), 0, 0, heads, -1)]
        parts += [composer.squeeze(each, [3]) for each in composer.split(composer.input(1), 3, [1, 1])]
    elif keys is None:
        raise composer.refuse("it has no key, and its query is not packed")
    else:
        flat = [composer.input(place) for place in range(3)]
        if composer.input(3):
            widths = [shape[2], shape[2] if len(keys) != _FLAT else keys[2], _last(values, heads)]
            biases = composer.split(composer.input(3), 0, widths)
            ranks = (_FLAT, len(keys), len(values or ()))
            flat = [
                composer.add("Add", *pair) if rank == _FLAT else pair[0]
                for pair, rank in zip(zip(flat, biases, strict=True), ranks, strict=True)
            ]
        crossed = len(keys) != _FLAT
        return [composer.split_heads(each, heads) if not (i and crossed) else each for i, each in enumerate(flat)]
    if composer.input(3):
        raise composer.refuse("it has a bias for a packed input")
    return [composer.add("Transpose", each, perm=[0, 2, 1, 3]) for each in parts]


def _last(shape: Shape | None, heads: int) -> int:
    """Return the total width of the heads, for a shape [batch, tokens, width] or [batch, heads, tokens, size]."""
    shape = shape or ()
    return shape[2] if len(shape) == _FLAT else heads * shape[3]


def _causal(composer: NodeComposer, tokens: tuple[int, int]) -> list[str]:
    if not composer.attributes.get("unidirectional", 0):
        return []
    count, total = tokens
    ahead = np.arange(total) > np.arange(count)[:, None] + total - count
    lowest = np.finfo(onnx.helper.tensor_dtype_to_np_dtype(composer.kind)).min
    return [composer.constant(np.where(ahead, lowest, 0).astype(lowest.dtype))]


def _mask(composer: NodeComposer, place: int, tokens: tuple[int, int]) -> list[str]:
    """Return the term that the mask adds to scores [batch, heads, tokens, total], or nothing if there is no mask.

    The mask gives the number of keys, or has 0 for each masked key. Raises NodeError for a mask of another shape.
    """
    mask, shape = composer.input(place), composer.known_shape(place)
    if shape is None:
        return []
    total = tokens[1]
    if len(shape) == 1:
        keys = composer.known_shape(0) or ()
        if shape[0] != keys[0]:
            raise composer.refuse(f"its mask has the shape {list(shape)}")
        cells = composer.constant(np.arange(total, dtype=np.int32)[None])
        seen = composer.add("Less", cells, composer.unsqueeze(mask, [1]))
        axes = [1, 2]
    elif len(shape) in (2, 3):
        seen, axes = mask, [1, 2] if len(shape) == 2 else [1]
    else:
        raise composer.refuse(f"its mask has the shape {list(shape)}")
    missing = composer.add("Sub", composer.number(1), composer.add("Cast", seen, to=composer.kind))
    added = composer.add("Mul", missing, composer.number(composer.attributes.get("mask_filter_value", _MASKED)))
    return [composer.unsqueeze(added, axes)]
