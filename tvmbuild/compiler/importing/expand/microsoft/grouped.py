"""Expansion of GroupQueryAttention.

It has fewer heads of keys and values than of queries, and a cache that each step extends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmbuild.compiler.importing.expand.caches import Cache, write_rows
from tvmbuild.compiler.importing.expand.microsoft.attention import soften
from tvmbuild.compiler.importing.expand.microsoft.rotary import read_turns, rotate
from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope

_UNKNOWN_INPUTS = {
    11: "head_sink",
    12: "k_scale",
    13: "v_scale",
    14: "q_norm_weight",
    15: "k_norm_weight",
    16: "query_seqlens",
}
_UNKNOWN_ATTRIBUTES = {"sliding_window_cache": 0, "smooth_softmax": 0, "qk_output": 0, "causal": 1}


@dataclass(frozen=True)
class _Sizes:
    batch: int
    tokens: int
    past: int
    total: int
    """The length of the cache after the step."""
    heads: int
    groups: int
    size: int
    first: bool
    """True if the step has the first tokens, so that the cache is still empty, whatever its length."""


def group_query_attention(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand GroupQueryAttention; return None if a shape is unknown.

    Raises NodeError if the total number of tokens is unknown.
    """
    composer = NodeComposer(node, scope)
    composer.refuse_inputs(_UNKNOWN_INPUTS)
    composer.refuse_attributes(_UNKNOWN_ATTRIBUTES)
    composer.refuse_outputs((3,))
    if composer.lacks_shapes(0, 3):
        return None
    sizes = _measure(composer)
    query, key, value = _operands(composer, sizes)
    lengths = composer.add("Cast", composer.input(5), to=TensorProto.INT64)  # [batch], less one
    offset = composer.constant(np.array(1 - sizes.tokens))
    starts = composer.constant(np.zeros(sizes.batch, np.int64)) if sizes.first else composer.add("Add", lengths, offset)
    places = composer.add("Add", composer.unsqueeze(starts, [1]), composer.constant(np.arange(sizes.tokens)[None]))
    if composer.attributes.get("do_rotary", 0):
        tables = scope.shape(composer.input(7))
        if tables is None:
            return None
        turns = read_turns(composer, (composer.input(7), composer.input(8)), composer.input(9) or places, tables[1])
        query, key = (rotate(composer, each, sizes.size, turns) for each in (query, key))
    key, value = (_store(composer, sizes, 3 + i, (each, starts)) for i, each in enumerate((key, value)))
    composer.name(key, composer.output(1))
    composer.name(value, composer.output(2))
    mixed = _attend(composer, sizes, (query, key, value), places)
    composer.name(composer.join_heads(mixed), node.output[0])
    return composer.nodes


def _measure(composer: NodeComposer) -> _Sizes:
    query, past = composer.known_shape(0) or (), composer.known_shape(3)
    heads, groups = composer.attributes["num_heads"], composer.attributes["kv_num_heads"]
    size = query[2] // (heads if composer.input(1) else heads + 2 * groups)
    total, tokens = composer.scope.constant(composer.input(6)), query[1]
    before = past[2] if past else 0
    if total is None:
        after = composer.scope.shape(composer.output(1)) if composer.output(1) else None
        if tokens > 1 or after is None:
            raise composer.refuse("total_sequence_length is not known: fix it as a value")
        length, first = after[2], before == 0
    else:
        length, first = max(before, int(total)), int(total) == tokens
    return _Sizes(query[0], tokens, before, length, heads, groups, size, first)


def _operands(composer: NodeComposer, sizes: _Sizes) -> list[str]:
    """Return the names of query, key and value, each [batch, heads, tokens, size]."""
    parts = [composer.input(place) for place in range(3)]
    if not parts[1]:
        widths = [count * sizes.size for count in (sizes.heads, sizes.groups, sizes.groups)]
        parts = composer.split(parts[0], 2, widths)
    counts = (sizes.heads, sizes.groups, sizes.groups)
    return [composer.split_heads(each, count) for each, count in zip(parts, counts, strict=True)]


def _store(composer: NodeComposer, sizes: _Sizes, place: int, new: tuple[str, str]) -> str:
    """Return the name of the cache with the new rows; ``new`` has the names of the rows and their first positions."""
    rows, starts = new
    shape = (sizes.batch, sizes.groups, sizes.total, sizes.size)
    if sizes.past == 0 and sizes.total == sizes.tokens:
        return rows
    cache, missing = composer.input(place), sizes.total - sizes.past
    if missing or not cache:
        kind = helper.tensor_dtype_to_np_dtype(composer.kind)
        empty = composer.constant(np.zeros((*shape[:2], missing, shape[3]), kind))
        cache = composer.concat([cache, empty], 2) if cache and sizes.past else empty
    return write_rows(composer, Cache(cache, rows, shape, sizes.tokens, 2), starts)


def _attend(composer: NodeComposer, sizes: _Sizes, operands: tuple[str, str, str], places: str) -> str:
    query, *cached = operands
    shape = (sizes.batch, sizes.groups, sizes.total, sizes.size)
    key, value = (composer.spread_heads(one, shape, sizes.heads) for one in cached)
    cells = composer.constant(np.arange(sizes.total)[None, None])
    last = composer.unsqueeze(places, [2])
    seen = composer.add("Not", composer.add("Less", last, cells))  # [batch, tokens, total]
    window = composer.attributes.get("local_window_size", -1)
    if window > 0:
        oldest = composer.add("Sub", last, composer.constant(np.array(window)))
        seen = composer.add("And", seen, composer.add("Less", oldest, cells))
    lowest = np.finfo(helper.tensor_dtype_to_np_dtype(composer.kind)).min
    masked = composer.add("Where", seen, composer.number(0), composer.number(float(lowest)))
    scores = composer.add("MatMul", query, composer.add("Transpose", key, perm=[0, 1, 3, 2]))
    masks = [composer.unsqueeze(masked, [1])]
    if composer.input(10):
        masks.insert(0, _fit(composer, composer.input(10), sizes.total))
    cap = composer.attributes.get("softcap", 0.0)
    if cap:
        scale = composer.attributes.get("scale", 0.0) or sizes.size**-0.5
        inner = composer.add("Tanh", composer.add("Mul", scores, composer.number(scale / cap)))
        scores = composer.add("Mul", inner, composer.number(cap))
        composer.attributes["scale"] = 1.0
    return composer.add("MatMul", soften(composer, scores, sizes.size, masks), value)


def _fit(composer: NodeComposer, bias: str, total: int) -> str:
    """Pad the bias of the scores to the length of the cache; the added cells are masked anyway."""
    shape = composer.scope.shape(bias)
    missing = total - shape[3] if shape else 0
    if missing <= 0:
        return bias
    pads = composer.integers(0, 0, 0, 0, 0, 0, 0, missing)
    return composer.add("Pad", bias, pads)
