"""The steps of CPU attention on a tile: pack queries, copy keys, and compute scores.

A thread computes blocks of queries one after the other; `Work` lists the private buffers of the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.sizes import Sizes
from tvmbuild.compiler.kernels.attention.form import Attention, Operand, Place, Places, find_places
from tvmbuild.compiler.kernels.vectors import cut, load, local, number, spread, squash, store

# The state of a thread that computes a block of queries: its buffers, and the places of the block's numbers.


@dataclass(frozen=True)
class Work(Places):
    """A block of queries of one head, with the private buffers of the thread that computes it."""

    form: Attention
    sizes: Sizes
    first: Any
    """The block's first row."""
    queries: Any
    """The scaled queries, [depth, rows]."""
    scores: Any
    """The scores, [keys, rows], with ``key_tile`` additional keys on either side."""
    sums: Any
    """The weighted sums of values, [rows, width]."""
    largest: Any
    """The running maximum, [rows]."""
    totals: Any
    """The running sum of weights, [rows]."""
    factors: Any
    """The factors that correct the running sums, [rows]."""

    @property
    def vectors(self) -> range:
        """The index of the first query of each vector in the block."""
        return range(0, self.sizes.rows, self.sizes.lanes)

    @property
    def is_single(self) -> bool:
        """Return whether one block has all keys."""
        return self.sizes.keys >= self.form.keys


def begin_work(form: Attention, sizes: Sizes, buffers: tuple[list[Any], Any], part: tuple[Any, Any]) -> Work:
    """Begin a block of queries, and return its state.

    ``buffers`` are the flat inputs and the flat output, and ``part`` is (head, first row). A block that would reach
    beyond the last row begins earlier.
    """
    rows = sizes.rows
    first = T.Bind(tirx.Min(part[1], int64(max(0, form.rows - rows))))
    kept = form.width * rows if sizes.keys < form.keys else 1
    return Work(
        **vars(find_places(form, *buffers, part[0])),
        form=form,
        sizes=sizes,
        first=first,
        queries=local(form.depth * rows),
        scores=local((2 * sizes.key_tile + sizes.keys) * rows),
        sums=local(kept),
        largest=local(rows),
        totals=local(rows),
        factors=local(rows),
    )


# A block's queries, side by side: squares of numbers are transposed in registers.


def pack_queries(work: Work) -> None:
    """Write the block's queries, multiplied by the scale, to ``work.queries`` as [depth, rows]."""
    lanes, depth = work.sizes.lanes, work.form.depth
    squares = depth // lanes if work.query.operand.column == 1 else 0
    for vector in work.vectors:
        if squares:
            with T.serial(int64(squares)) as square:
                _pack_square(work, vector, T.Bind(square * lanes))
        if squares * lanes < depth:
            with T.serial(int64(lanes)) as lane, T.serial(int64(depth - squares * lanes)) as left:
                column = left + squares * lanes
                value = load(work.query.buffer, work.query.at(_row(work, lane + vector), column))
                store(work.queries, value * number(work.form.scale), column * work.sizes.rows + vector + lane)


def _pack_square(work: Work, vector: int, column: Any) -> None:
    lanes, query = work.sizes.lanes, work.query
    rows = [load(query.buffer, query.at(_row(work, vector + lane), column), lanes) for lane in range(lanes)]
    for index, each in enumerate(_transpose(rows)):
        value = each * number(work.form.scale, lanes)
        store(work.queries, value, (column + index) * work.sizes.rows + vector, lanes)


def _row(work: Work, row: Any) -> Any:
    """Return the row of the head for a row of the block; rows beyond the last one repeat the last row."""
    if work.sizes.rows <= work.form.rows:
        return work.first + row
    return tirx.Min(work.first + row, int64(work.form.rows - 1))


def _transpose(rows: list[Any]) -> list[Any]:
    """Transpose a square of vectors in registers: swap halves of pairs of vectors, then quarters, and so on."""
    lanes = len(rows)
    rows = [T.Bind(each) for each in rows]
    step = lanes // 2
    while step:
        for first in (each for each in range(lanes) if not each & step):
            pair = rows[first], rows[first + step]
            low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
            high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
            rows[first], rows[first + step] = (T.Bind(_shuffle(pair, indices)) for indices in (low, high))
        step //= 2
    return rows


def _shuffle(pair: tuple[Any, Any], indices: list[int]) -> Any:
    return tirx.Shuffle(list(pair), [tirx.IntImm("int32", index) for index in indices])


# The range of keys that a block of queries sees: keys that constant masks hide from all its queries are skipped.


def visible_keys(work: Work) -> tuple[Any, Any]:
    """Return the range (begin, end) of the keys that at least one query of the block sees."""
    form, rows = work.form, work.sizes.rows
    first, last = _shifts(form)
    begin = int64(0) if first is None else tirx.Max(int64(0), work.first + first)
    end = int64(form.keys)
    return begin, end if last is None else tirx.Min(end, work.first + (rows - 1 + last))


def _shifts(form: Attention) -> tuple[int | None, int | None]:
    """Return the distances from a query to its first visible key and to the key after its last visible one.

    A distance is None if it differs between queries, or if it hides no key.
    """
    if not form.visible:
        return None, None
    first = _find_shift([begin for begin, _ in form.visible], form.keys)
    last = _find_shift([end for _, end in form.visible], form.keys)
    hides_first = first is not None and first > -form.rows + 1
    hides_last = last is not None and last < form.keys
    return first if hides_first else None, last if hides_last else None


def _find_shift(places: Sequence[int], keys: int) -> int | None:
    values, rows = np.array(places), np.arange(len(places))
    for shift in {int(places[0]), int(places[-1]) - len(places) + 1}:
        if np.array_equal(values, np.clip(rows + shift, 0, keys)):
            return shift
    return None


# Private copies of keys and values, where reading them in place is slow.

_ALIASES = 1 << 12
"""The distance in bytes at which two addresses are in the same set of the first-level cache."""


def take_keys(work: Work, first: Any) -> Place:
    """Return the place of a block's keys, copied if reading them in place is slow.

    A copy includes the earlier keys that are in the block's last tile.
    """
    place, form, sizes = work.key, work.form, work.sizes
    if not _is_slow(place):
        return place
    count = min(form.keys, -(-sizes.keys // sizes.key_tile) * sizes.key_tile)
    start = T.Bind(tirx.Min(first, int64(form.keys - count)))
    copy = local(count * form.depth)
    _copy(work, copy, (start, int64(count)), place, form.depth)
    return Place(copy, T.Bind(-start * form.depth), _dense(form.depth))


def take_values(work: Work, first: Any, count: Any) -> Place:
    """Return the place of the values of ``count`` keys, copied if reading them in place is slow."""
    place, form = work.value, work.form
    if not _is_slow(place):
        return place
    copy = local(work.sizes.keys * form.width)
    _copy(work, copy, (first, count), place, form.width)
    return Place(copy, T.Bind(-first * form.width), _dense(form.width))


def _dense(width: int) -> Operand:
    return Operand(-1, 0, (), width, 1)


def _is_slow(place: Place) -> bool:
    """Return whether numbers must be converted to float32, or rows would evict each other from the cache."""
    return str(place.buffer.dtype) != "float32" or any(
        step > 1 and 4 * step % _ALIASES == 0 for step in (place.operand.row, place.operand.column)
    )


def _copy(work: Work, copy: Any, keys: tuple[Any, Any], place: Place, width: int) -> None:
    first, count = keys
    lanes = work.sizes.width_lanes if place.operand.column == 1 else 1
    with T.serial(count) as key:
        if lanes == 1:
            with T.serial(int64(width)) as column:
                store(copy, load(place.buffer, place.at(first + key, column)), key * width + column)
        for begin, piece in cut(width, lanes) if lanes > 1 else ():
            value = load(place.buffer, place.at(first + key, int64(begin)), piece)
            store(copy, value, key * width + begin, piece)


# The scores of a block: tiles of keys by vectors of queries in registers, scaled, capped, masked, and their maximum.


def write_scores(work: Work, first: Any, count: Any) -> None:
    """Write the scores of ``count`` keys from ``first`` on, and update the running maximum.

    If these keys do not fill the last tile, the tile computes neighbouring keys, too.
    """
    form, sizes = work.form, work.sizes
    # A tile that would reach beyond the last key begins earlier.
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
    """Return the mask of a vector of queries for one key; its numbers are adjacent in memory, or all the same."""
    sizes, rows = work.sizes, work.form.rows
    if place.operand.row == 0:
        return spread(load(place.buffer, place.at(int64(0), key)), sizes.lanes)
    if sizes.rows <= rows:
        return load(place.buffer, place.at(work.first + vector, key), sizes.lanes)
    each = [load(place.buffer, place.at(int64(min(vector + lane, rows - 1)), key)) for lane in range(sizes.lanes)]
    return tirx.Shuffle(each, [tirx.IntImm("int32", lane) for lane in range(sizes.lanes)])
