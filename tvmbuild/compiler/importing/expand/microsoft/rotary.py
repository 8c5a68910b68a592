"""Expansion of rotary embeddings: pairs of numbers are rotated by an angle that grows with the token's position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.node_composer import NodeComposer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope


@dataclass(frozen=True)
class Turns:
    """The rotation of each token, as the names of cosines and sines [batch, 1, tokens, half].

    ``half`` is the number of pairs; if ``interleaved`` is set, the two numbers of a pair are neighbours.
    """

    cosines: str
    sines: str
    half: int
    interleaved: bool


def rotary_embedding(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand com.microsoft's RotaryEmbedding, whose positions come before its tables.

    Return None if a shape is unknown.
    """
    composer = NodeComposer(node, scope)
    composer.refuse_attributes({"is_packed_batching": 0, "scale": 1.0})
    shape, tables, positions = (composer.known_shape(place) for place in (0, 2, 1))
    if shape is None or tables is None or positions is None:
        return None
    heads, flat = composer.attributes.get("num_heads", 0), len(shape) == 3
    half = tables[1]
    if flat:
        heads = heads or shape[2] // (2 * half)
        value, size, tokens = composer.split_heads(node.input[0], heads), shape[2] // heads, shape[1]
    else:
        value, size, tokens = node.input[0], shape[3], shape[2]
    places = composer.input(1)
    if len(positions) == 1:  # only the first token's position is given
        places = composer.add("Add", composer.unsqueeze(places, [1]), composer.constant(np.arange(tokens)[None]))
    turns = read_turns(composer, (composer.input(2), composer.input(3)), places, half)
    rotated = rotate(composer, value, size, turns)
    composer.name(composer.join_heads(rotated) if flat else rotated, node.output[0])
    return composer.nodes


def read_turns(composer: NodeComposer, tables: tuple[str, str], places: str, half: int) -> Turns:
    """Return the rotation at the positions ``places`` [batch, tokens], from the tables of cosines and sines."""
    cosines, sines = (composer.unsqueeze(composer.add("Gather", table, places), [1]) for table in tables)
    flag = "rotary_interleaved" if composer.node.op_type == "GroupQueryAttention" else "interleaved"
    return Turns(cosines, sines, half, bool(composer.attributes.get(flag, 0)))


def rotate(composer: NodeComposer, value: str, size: int, turns: Turns) -> str:
    """Rotate the first 2 · half numbers of each row of [batch, heads, tokens, size]; the rest of a row stays."""
    half, left = turns.half, size - 2 * turns.half
    parts = composer.split(value, 3, [2 * half, left] if left else [2 * half])
    first, second = _halves(composer, parts[0], turns)
    turned = (
        composer.add("Sub", composer.add("Mul", first, turns.cosines), composer.add("Mul", second, turns.sines)),
        composer.add("Add", composer.add("Mul", second, turns.cosines), composer.add("Mul", first, turns.sines)),
    )
    if turns.interleaved:
        apart = [composer.unsqueeze(each, [4]) for each in turned]
        joined = composer.reshape(composer.concat(apart, 4), 0, 0, 0, 2 * half)
    else:
        joined = composer.concat(turned, 3)
    return composer.concat([joined, *parts[1:]], 3)


def _halves(composer: NodeComposer, value: str, turns: Turns) -> list[str]:
    if not turns.interleaved:
        return composer.split(value, 3, [turns.half, turns.half])
    pairs = composer.split(composer.reshape(value, 0, 0, 0, turns.half, 2), 4, [1, 1])
    return [composer.squeeze(each, [4]) for each in pairs]
