"""Scores of a block: tiles of keys by vectors of queries in registers, scaled, capped, masked, and their maximum."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.copies import take_keys
from tvmbuild.compiler.kernels.attention.cpu.work import Work
from tvmbuild.compiler.kernels.attention.places import Place
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, squash, store


def write_scores(work: Work, first: Any, count: Any) -> None:
    """Write the scores of ``count`` keys from ``first`` on, and of more where they fill no tile."""
    form, sizes = work.form, work.sizes
    # Where no keys are left the tile begins earlier.
    tile, last = sizes.key_tile, int64(form.keys - sizes.key_tile)
    sums = local(tile * sizes.rows)
    keys = take_keys(work, first)
    with T.serial((count + tile - 1) // tile) as step:
        begin = T.Bind(tirx.Min(first + step * tile, last))
        _multiply(work, sums, keys, begin)
        for vector in work.vectors:
            found = load(work.largest, vector, sizes.lanes)
            for key in range(tile):
                score = squash(load(sums, key * sizes.rows + vector, sizes.lanes), form.cap, sizes.lanes)
                for mask, place in zip(form.masks, work.masks, strict=True):
                    numbers = _load_mask(work, place, begin + key, vector)
                    if mask.fill is None:
                        score = score + numbers
                    else:
                        shown = numbers != number(0, sizes.lanes)
                        score = tirx.Select(shown, score, number(mask.fill, sizes.lanes))
                score = T.Bind(score)
                found = tirx.Max(score, found)
                store(work.scores, score, (begin - first + tile + key) * sizes.rows + vector, sizes.lanes)
            store(work.largest, found, vector, sizes.lanes)


def _multiply(work: Work, sums: Any, keys: Place, begin: Any) -> None:
    sizes = work.sizes
    places = [(key, vector) for key in range(sizes.key_tile) for vector in work.vectors]
    for key, vector in places:
        store(sums, number(0, sizes.lanes), key * sizes.rows + vector, sizes.lanes)
    with T.serial(int64(work.form.depth)) as d:
        for key, vector in places:
            at = key * sizes.rows + vector
            data = spread(load(keys.buffer, keys.at(begin + key, d)), sizes.lanes)
            query = load(work.queries, d * sizes.rows + vector, sizes.lanes)
            store(sums, load(sums, at, sizes.lanes) + data * query, at, sizes.lanes)


def _load_mask(work: Work, place: Place, key: Any, vector: int) -> Any:
    """Return the mask of a vector of queries, which lie side by side, or for all of which it is the same."""
    sizes, rows = work.sizes, work.form.rows
    if place.operand.row == 0:
        return spread(load(place.buffer, place.at(int64(0), key)), sizes.lanes)
    if sizes.rows <= rows:
        return load(place.buffer, place.at(work.first + vector, key), sizes.lanes)
    each = [load(place.buffer, place.at(int64(min(vector + lane, rows - 1)), key)) for lane in range(sizes.lanes)]
    return tirx.Shuffle(each, [tirx.IntImm("int32", lane) for lane in range(sizes.lanes)])
