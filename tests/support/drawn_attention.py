"""Drawn attention as exporters write it: sizes, layouts of heads, grouped queries, scales, masks, later nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from drawn_model import DrawnModel

HIDES = (-np.inf, float(np.finfo(np.float32).min), -1e9, -1e4)


@dataclass
class Drawn(DrawnModel):
    """A model of attention, with values for its inputs."""

    batch: int = 1
    heads: int = 1
    groups: int = 1
    """The number of query heads to one key head."""
    rows: int = 1
    keys: int = 1
    depth: int = 1
    width: int = 1


def _project(drawn: Drawn) -> tuple[str, str, str]:
    """Return query, key and value as [batch, heads, tokens, size]."""
    batch, heads, kept = drawn.batch, drawn.heads, drawn.heads // drawn.groups
    if drawn.groups == 1 and (drawn.rows, drawn.depth) == (drawn.keys, drawn.width) and drawn.pick(True, False):
        return _project_together(drawn)
    sizes = ((heads, drawn.rows, drawn.depth), (kept, drawn.keys, drawn.depth), (kept, drawn.keys, drawn.width))
    found = []
    for count, tokens, size in sizes:
        if drawn.pick(True, True, False):
            split = drawn.reshape(drawn.feed(batch, tokens, count * size), batch, tokens, count, size)
            found.append(drawn.add("Transpose", split, perm=[0, 2, 1, 3]))
        else:
            found.append(drawn.feed(batch, count, tokens, size))
    if drawn.groups > 1:
        found[1:] = [_repeat(drawn, *each) for each in zip(found[1:], (drawn.depth, drawn.width), strict=True)]
    return found[0], found[1], found[2]


def _project_together(drawn: Drawn) -> tuple[str, str, str]:
    batch, tokens, heads, size = drawn.batch, drawn.rows, drawn.heads, drawn.depth
    x = drawn.feed(batch, tokens, 3 * heads * size)
    if drawn.pick(True, False):
        split = drawn.add_many("Split", 3, x, axis=-1)
        parts = [drawn.reshape(each, batch, tokens, heads, size) for each in split]
        q, k, v = (drawn.add("Transpose", each, perm=[0, 2, 1, 3]) for each in parts)
        return q, k, v
    turned = drawn.add("Transpose", drawn.reshape(x, batch, tokens, 3, heads, size), perm=[2, 0, 3, 1, 4])
    q, k, v = (drawn.add("Gather", turned, drawn.constant(each, "int64"), axis=0) for each in range(3))
    return q, k, v


def _repeat(drawn: Drawn, x: str, size: int) -> str:
    """Repeat each head of keys or values for its group of queries."""
    batch, kept, groups, keys = drawn.batch, drawn.heads // drawn.groups, drawn.groups, drawn.keys
    way = drawn.pick("expand", "expand", "concat", "tile")
    if way == "concat":
        return drawn.add("Concat", *[x] * groups, axis=1)
    if way == "tile":
        return drawn.add("Tile", x, drawn.constant([1, groups, 1, 1], "int64"))
    x = drawn.add("Unsqueeze", x, drawn.constant([2], "int64"))
    x = drawn.add("Expand", x, drawn.constant([batch, kept, groups, keys, size], "int64"))
    return drawn.reshape(x, batch, drawn.heads, keys, size)


def _score(drawn: Drawn, query: str, key: str) -> str:
    """Return the scores, scaled, [batch, heads, rows, keys]."""
    way, scale = drawn.pick("after", "divide", "before", "both", "none"), drawn.depth**-0.5
    if way == "before":
        query = drawn.add("Mul", query, drawn.constant(scale))
    if way == "both":
        query = drawn.add("Mul", query, drawn.constant([scale**0.5]))
        key = drawn.add("Mul", key, drawn.constant([scale**0.5]))
    turned = drawn.add("Transpose", key, perm=[0, 1, 3, 2])
    scores = drawn.add("MatMul", query, turned)
    if way == "after":
        scores = drawn.add("Mul", scores, drawn.constant(scale))
    return drawn.add("Div", scores, drawn.constant(1 / scale)) if way == "divide" else scores


def _mask(drawn: Drawn, scores: str) -> str:
    """Add a mask to the scores, or choose by a mask."""
    kind, hides = drawn.pick("none", "causal", "some", "lengths", "bias", "both"), drawn.pick(*HIDES)
    if kind in {"bias", "both"}:
        shape = drawn.pick((1, drawn.heads, drawn.rows, drawn.keys), (drawn.rows, drawn.keys), (drawn.keys,))
        bias = drawn.feed(*shape) if drawn.pick(True, False) else drawn.constant(drawn.random.uniform(-3, 3, shape))
        scores = drawn.add("Add", *drawn.pick((scores, bias), (bias, scores)))
    if kind in {"none", "bias"}:
        return scores
    if kind == "lengths":
        numbers = drawn.feed(drawn.batch, 1, 1, drawn.keys)
        return _select(drawn, scores, drawn.add("Greater", numbers, drawn.constant(-1.0)), hides)
    if kind == "causal":
        shown = np.tri(drawn.rows, drawn.keys, max(0, drawn.keys - drawn.rows), bool)
    else:
        shown = drawn.random.uniform(size=(drawn.rows, drawn.keys)) < 0.7
    if drawn.pick(True, False):
        return drawn.add("Add", scores, drawn.constant(np.where(shown, 0, hides)[None]))
    return _select(drawn, scores, drawn.constant(shown[None, None], "bool"), hides)


def _select(drawn: Drawn, scores: str, shown: str, hides: float) -> str:
    way = drawn.pick("keep", "hide", "add")
    if way == "keep":
        return drawn.add("Where", shown, scores, drawn.constant(hides))
    if way == "hide":
        return drawn.add("Where", drawn.add("Not", shown), drawn.constant(hides), scores)
    return drawn.add("Add", scores, drawn.add("Where", shown, drawn.constant(0.0), drawn.constant(hides)))


def draw_attention(seed: int, *, most: int = 70) -> Drawn:
    """Draw one model with a limited number of tokens."""
    drawn = Drawn(np.random.default_rng(seed))
    tokens = [each for each in (1, 2, 7, 8, 16, 17, 33, 50, 67, 197) if each <= most]
    drawn.rows = rows = drawn.pick(*tokens)
    drawn.keys = keys = drawn.pick(rows, rows, *tokens)
    drawn.depth = depth = drawn.pick(4, 5, 32, 40, 72)
    drawn.width = width = drawn.pick(depth, depth, 8, 21)
    drawn.batch, drawn.groups = drawn.pick(1, 2), drawn.pick(1, 1, 2, 3)
    drawn.heads = heads = drawn.groups * drawn.pick(1, 2, 3)
    query, key, value = _project(drawn)
    merged = drawn.pick(True, False, False)
    if merged:
        sizes = ((query, rows, depth), (key, keys, depth), (value, keys, width))
        query, key, value = (drawn.reshape(x, 1, drawn.batch * heads, *sizes) for x, *sizes in sizes)
    scores = _score(drawn, query, key)
    if merged:
        scores = drawn.reshape(scores, drawn.batch, heads, rows, keys)
    if drawn.pick(True, False, False, False):
        cap = drawn.constant(drawn.pick(1.5, 30))
        scores = drawn.add("Mul", drawn.add("Tanh", drawn.add("Div", scores, cap)), cap)
    scores = _mask(drawn, scores)
    if merged:
        scores = drawn.reshape(scores, 1, drawn.batch * heads, rows, keys)
    weights = drawn.add("Softmax", scores, axis=-1)
    if drawn.pick(True, False):
        weights = drawn.add("Where", drawn.add("IsNaN", weights), drawn.constant(0.0), weights)
    out = drawn.add("MatMul", weights, value)
    if drawn.pick(True, True, False):
        out = drawn.reshape(out, drawn.batch, heads, rows, width) if merged else out
        out = drawn.add("Transpose", out, perm=[0, 2, 1, 3])
        out = drawn.reshape(out, drawn.batch, rows, heads * width)
    drawn.outputs = [out]
    return drawn
