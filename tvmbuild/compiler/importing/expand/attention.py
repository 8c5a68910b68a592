"""Expansion of ONNX's Attention to the operators that exporters write; ONNX's own function expands rare forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from tvmbuild.compiler.importing.expand.functions import by_function
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_FLAT = 3
_RARE = {"softcap": 0.0, "softmax_precision": 0, "left_window_size": -1, "right_window_size": -1}
_LENGTHS, _PRODUCT = 6, 3
"""The index of the input with each batch's length, and the index of the output with the scores."""
_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class _Operand:
    """The name and the shape of a value [batch, heads, tokens, size]."""

    value: str
    shape: tuple[int, int, int, int]


def attention(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand Attention; rows of scores that a mask hides completely give zeros, as in ONNX."""
    composer = NodeComposer(node, scope)
    if not _is_usual(composer):
        return by_function(node, scope)
    query, key, value = (_read(composer, place) for place in range(3))
    key, value = (_extend(composer, each, place) for each, place in ((key, 4), (value, 5)))
    composer.name(key.value, composer.output(1))
    composer.name(value.value, composer.output(2))
    size, heads = query.shape[3], query.shape[1]
    keys, values = (composer.spread_heads(each.value, each.shape, heads) for each in (key, value))
    scores = composer.add("MatMul", query.value, composer.add("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = composer.add("Mul", scores, composer.number(composer.attributes.get("scale", 0.0) or size**-0.5))
    added, shown = _mask(composer, query.shape[2], key.shape[2])
    if added:
        scores = composer.add("Add", scores, added)
    mixed = composer.add("MatMul", composer.add("Softmax", scores, axis=-1), values)
    if shown:
        mixed = composer.add("Where", shown, mixed, composer.number(0))
    flat = len(composer.known_shape(0) or ()) == _FLAT
    composer.name(composer.join_heads(mixed) if flat else mixed, node.output[0])
    return composer.nodes


def _is_usual(composer: NodeComposer) -> bool:
    """Return whether this module expands the node itself: it has float32 values, known shapes, no rare attributes."""
    rare = any(composer.attributes.get(name, default) != default for name, default in _RARE.items())
    asked = composer.input(_LENGTHS) or composer.output(_PRODUCT)
    places = [place for place in range(6) if composer.input(place)]
    known = not composer.lacks_shapes(*places)
    floats = all(composer.scope.element_type(composer.input(place)) == TensorProto.FLOAT for place in range(3))
    if rare or asked or not known or not floats:
        return False
    mask, keys, past = (composer.known_shape(place) for place in (3, 1, 4))
    total = (keys or ())[-2] + (past[2] if past else 0)
    kinds = {TensorProto.FLOAT, TensorProto.BOOL}
    return mask is None or (mask[-1] == total and composer.scope.element_type(composer.input(3)) in kinds)


def _read(composer: NodeComposer, place: int) -> _Operand:
    value, shape = composer.input(place), composer.known_shape(place) or ()
    if len(shape) != _FLAT:
        batch, heads, tokens, size = shape
        return _Operand(value, (batch, heads, tokens, size))
    heads = composer.attributes["q_num_heads" if place == 0 else "kv_num_heads"]
    return _Operand(composer.split_heads(value, heads), (shape[0], heads, shape[1], shape[2] // heads))


def _extend(composer: NodeComposer, new: _Operand, place: int) -> _Operand:
    past = composer.known_shape(place)
    if past is None:
        return new
    batch, heads, tokens, size = new.shape
    return _Operand(composer.concat([composer.input(place), new.value], 2), (batch, heads, past[2] + tokens, size))


def _mask(composer: NodeComposer, tokens: int, total: int) -> tuple[str, str]:
    """Return the name of the term to add to the scores, and of the condition that a row sees at least one key.

    An empty name means no term, or that all rows see a key.
    """
    mask, causal = composer.input(3), composer.attributes.get("is_causal", 0)
    before = (composer.known_shape(4) or (0, 0, 0))[2]
    seen = np.arange(total) <= np.arange(tokens)[:, None] + before
    if causal and not mask:
        rows = seen.any(-1, keepdims=True)
        hidden = np.where(seen, 0, _LOWEST).astype(np.float32)
        return composer.constant(hidden), "" if rows.all() else composer.constant(rows)
    if not mask:
        return "", ""
    if composer.scope.element_type(mask) == TensorProto.BOOL:
        if causal:
            mask = composer.add("And", mask, composer.constant(seen))
        added = composer.add("Where", mask, composer.number(0), composer.number(_LOWEST))
        largest = _reduce(composer, composer.add("Cast", mask, to=TensorProto.FLOAT))
        return added, composer.add("Greater", largest, composer.number(0))
    if causal:
        mask = composer.add("Where", composer.constant(seen), mask, composer.number(-np.inf))
    return mask, composer.add("Greater", _reduce(composer, mask), composer.number(-np.inf))


def _reduce(composer: NodeComposer, value: str) -> str:
    return composer.add("ReduceMax", value, composer.integers(-1), keepdims=1)  # Attention is newer than axes as inputs
