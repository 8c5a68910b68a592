"""Writes of rows into a cache of keys or values: TensorScatter, and the caches in operators of com.microsoft."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from tvmbuild.compiler.importing.expand.compose import Composer
from tvmbuild.compiler.importing.expand.scope import Nodes, Scope, attributes_of


@dataclass(frozen=True)
class Cache:
    """The names of a cache and of its new rows, the cache's shape, the number of new rows, and the axis of the rows."""

    value: str
    rows: str
    shape: tuple[int, ...]
    count: int
    axis: int


def tensor_scatter(node: onnx.NodeProto, scope: Scope) -> Nodes | None:
    """Expand TensorScatter, which writes rows into a cache from each batch's index on.

    Return None if a shape is unknown.
    """
    shapes = [scope.shape(name) for name in node.input[:2]]
    if shapes[0] is None or shapes[1] is None:
        return None
    attributes, composer = attributes_of(node), Composer(scope, node.name or "TensorScatter")
    axis = attributes.get("axis", -2) % len(shapes[0])
    given = len(node.input) > 2 and node.input[2]
    starts = node.input[2] if given else composer.constant(np.zeros(shapes[0][0], np.int64))
    cache = Cache(node.input[0], node.input[1], shapes[0], shapes[1][axis], axis)
    written = write_rows(composer, cache, starts, circular=attributes.get("mode", "linear") == "circular")
    composer.name(written, node.output[0])
    return composer.nodes


def write_rows(composer: Composer, cache: Cache, starts: str, circular: bool = False) -> str:
    """Return the name of the cache after its new rows are written from ``starts`` (int64 [batch]) on.

    Rows beyond the end of the cache are left out or, if ``circular`` is set, written to its beginning.
    """
    batch, length = cache.shape[0], cache.shape[cache.axis]
    cells = composer.constant(np.arange(length)[None])
    places = composer.add("Sub", cells, composer.unsqueeze(starts, [1]))  # the place of each cell among the rows
    if circular:
        places = composer.add("Mod", places, composer.constant(np.array(length)))
    spread = [1] * len(cache.shape)
    spread[0], spread[cache.axis] = batch, length
    if cache.count == 1:  # broadcasting writes the one row to one cell
        inside = composer.add("Equal", places, composer.constant(np.array(0)))
        rows = cache.rows
    else:
        first, last = composer.constant(np.array(0)), composer.constant(np.array(cache.count))
        after = composer.add("Not", composer.add("Less", places, first))
        inside = composer.add("And", after, composer.add("Less", places, last))
        within = composer.add("Mod", places, last)
        index = composer.add("Reshape", within, composer.constant(np.array(spread)))
        index = composer.add("Expand", index, composer.constant(np.array(cache.shape)))
        rows = composer.add("GatherElements", cache.rows, index, axis=cache.axis)
    chosen = composer.add("Reshape", inside, composer.constant(np.array(spread)))
    return composer.add("Where", chosen, rows, cache.value)
