"""The attention kernel of CPUs: the threads share the blocks of queries, and each block runs over all keys.

A block keeps the running maximum and sum of its softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.codegen.fast_math import exp_of_negative
from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.sizes import choose_last, choose_sizes
from tvmbuild.compiler.kernels.attention.cpu.tiles import (
    Work,
    begin_work,
    pack_queries,
    take_values,
    visible_keys,
    write_scores,
)
from tvmbuild.compiler.kernels.attention.form import Attention, Place, begin_function
from tvmbuild.compiler.kernels.vectors import cut, load, local, number, spread, store
from tvmbuild.compiler.machine.machine import PARALLEL_WORK, Machine


def write_attention(form: Attention, machine: Machine) -> tirx.PrimFunc:
    """Write the attention kernel for a CPU; see :class:`Attention` for the kernel's arguments."""
    sizes = choose_sizes(form, machine)
    blocks = sizes.count_blocks(form.rows)
    parts = math.prod(form.heads) * blocks
    chunks = parts if form.operations >= PARALLEL_WORK and machine.threads > 1 else 1
    with (
        begin_function(form) as (builder, inputs, out),
        T.parallel(int64(chunks)) as chunk,
        T.serial(int64(parts // chunks)) as step,
    ):
        part = chunk * (parts // chunks) + step
        head, block = part // blocks, part % blocks
        last = choose_last(form, machine, sizes)
        if last is None:
            _write_block(begin_work(form, sizes, (inputs, out), (head, block * sizes.rows)))
        else:
            with T.If(block < int64(blocks - 1)):
                with T.Then():
                    _write_block(begin_work(form, sizes, (inputs, out), (head, block * sizes.rows)))
                with T.Else():
                    _write_block(begin_work(form, last, (inputs, out), (head, int64(form.rows))))
    return builder.get()


def _write_block(work: Work) -> None:
    sizes = work.sizes
    pack_queries(work)
    begin_softmax(work)
    begin, end = (T.Bind(each) for each in visible_keys(work))
    if work.is_single:
        _write_keys(work, begin, end - begin)
    else:
        with T.serial((end - begin + (sizes.keys - 1)) // sizes.keys) as block:
            first = T.Bind(begin + block * sizes.keys)
            _write_keys(work, first, T.Bind(tirx.Min(int64(sizes.keys), end - first)))
    write_outputs(work)


def _write_keys(work: Work, first: Any, count: Any) -> None:
    write_scores(work, first, count)
    write_weights(work, count)
    write_weighted(work, first, count)


# The softmax of a block: weights, their sums, and factors for the earlier sums.


def begin_softmax(work: Work) -> None:
    """Write the initial values of the block's running maximum, sum of weights, factors and weighted sums."""
    lanes = work.sizes.lanes
    for vector in work.vectors:
        store(work.largest, number(-math.inf, lanes), vector, lanes)
        store(work.totals, number(0, lanes), vector, lanes)
        if not work.is_single:
            store(work.factors, number(-math.inf, lanes), vector, lanes)
            with T.serial(int64(work.form.width)) as column:
                store(work.sums, number(0, lanes), column * work.sizes.rows + vector, lanes)


def write_weights(work: Work, count: Any) -> None:
    """Replace the scores of ``count`` keys by the weights exp(score - maximum), and add these weights to the totals.

    ``work.factors`` holds the previous maximum, and gets the factor that corrects the previous sums for the new
    maximum.
    """
    sizes, lanes = work.sizes, work.sizes.lanes
    rows = sizes.rows
    for vector in work.vectors:
        largest = load(work.largest, vector, lanes)
        # In a row without any key the maximum is minus infinity: minus infinity less itself would be NaN.
        largest = T.Bind(tirx.Select(largest == number(-math.inf, lanes), number(0, lanes), largest))
        total = local(lanes)
        before = number(0, lanes)
        if not work.is_single:
            factor = T.Bind(exp_of_negative(load(work.factors, vector, lanes) - largest))
            store(work.factors, factor, vector, lanes)
            before = load(work.totals, vector, lanes) * factor
        store(total, before, 0, lanes)
        with T.serial(count) as key:
            at = (key + sizes.key_tile) * rows + vector
            weight = T.Bind(exp_of_negative(load(work.scores, at, lanes) - largest))
            store(work.scores, weight, at, lanes)
            store(total, load(total, 0, lanes) + weight, 0, lanes)
        store(work.totals, load(total, 0, lanes), vector, lanes)


# The weighted sums of values: tiles of queries by vectors along a head's size, in registers.


def write_weighted(work: Work, first: Any, count: Any) -> None:
    """Add the weighted values of ``count`` keys from ``first`` on to the sums.

    If one block has all keys, write the output instead.
    """
    form, sizes = work.form, work.sizes
    pieces = cut(form.width, sizes.width_lanes)
    values = take_values(work, first, count)
    if work.is_single:
        _invert(work)
    for begin in range(0, len(pieces), sizes.pieces):
        with T.serial(int64(sizes.rows // sizes.row_tile)) as step:
            row = T.Bind(step * sizes.row_tile)
            sums = _multiply(work, _Keys(values, first, count), row, pieces[begin : begin + sizes.pieces])
            for line in range(sizes.row_tile):
                _put(work, row + line, sums[line])
    if not work.is_single:
        for vector in work.vectors:
            store(work.factors, load(work.largest, vector, sizes.lanes), vector, sizes.lanes)


Piece = tuple[int, int, Any, int]


@dataclass(frozen=True)
class _Keys:
    """A block of ``count`` keys from key ``first`` on, and the place of their values."""

    values: Place
    first: Any
    count: Any


def _multiply(work: Work, keys: _Keys, row: Any, pieces: list[tuple[int, int]]) -> list[list[Piece]]:
    """Compute the sums of a tile, and return (column, lanes, buffer, index in the buffer) of each vector, by row."""
    sizes, form = work.sizes, work.form
    size = sum(lanes for _, lanes in pieces)
    sums = local(sizes.row_tile * size)
    tile = [
        [(column, lanes, sums, line * size + column - pieces[0][0]) for column, lanes in pieces]
        for line in range(sizes.row_tile)
    ]
    for line, places in enumerate(tile):
        for column, lanes, _, at in places:
            start = number(0, lanes)
            if not work.is_single:
                factor = spread(load(work.factors, row + line), lanes)
                start = load(work.sums, (row + line) * form.width + column, lanes) * factor
            store(sums, start, at, lanes)
    with T.serial(keys.count) as key:
        for line, places in enumerate(tile):
            for column, lanes, _, at in places:
                weight = spread(load(work.scores, (key + sizes.key_tile) * sizes.rows + row + line), lanes)
                value = load(keys.values.buffer, keys.values.at(keys.first + key, int64(column)), lanes)
                store(sums, load(sums, at, lanes) + weight * value, at, lanes)
    return tile


def _put(work: Work, row: Any, places: list[Piece]) -> None:
    form = work.form
    if not work.is_single:
        for column, lanes, sums, at in places:
            store(work.sums, load(sums, at, lanes), row * form.width + column, lanes)
        return
    _guard(work, row, [(column, lanes, load(sums, at, lanes)) for column, lanes, sums, at in places])


def _guard(work: Work, row: Any, values: list[tuple[int, int, Any]]) -> None:
    """Write a row of the output, unless the row is beyond the head's last one, as in its last block."""
    factor = load(work.factors, row)

    def write() -> None:
        for column, lanes, value in values:
            at = work.output.at(work.first + row, int64(column))
            store(work.output.buffer, value * spread(factor, lanes), at, lanes)

    if work.sizes.rows <= work.form.rows:
        write()
        return
    with T.If(row < int64(work.form.rows)), T.Then():
        write()


def write_outputs(work: Work) -> None:
    """Write the output from the sums over several blocks of keys; with a single block, it is already written."""
    if work.is_single:
        return
    form, sizes = work.form, work.sizes
    _invert(work)
    with T.serial(int64(sizes.rows)) as row:
        pieces = cut(form.width, sizes.width_lanes)
        _guard(work, row, [(each, lanes, load(work.sums, row * form.width + each, lanes)) for each, lanes in pieces])


def _invert(work: Work) -> None:
    """Store the factors that normalise the sums: 1 / total, or for a row without any visible key NaN or zero."""
    lanes = work.sizes.lanes
    for vector in work.vectors:
        total = load(work.totals, vector, lanes)
        inverse = number(1, lanes) / total
        nothing = number(0 if work.form.nan_is_zero else math.nan, lanes)
        empty = load(work.largest, vector, lanes) == number(-math.inf, lanes)
        store(work.factors, tirx.Select(empty, nothing, inverse), vector, lanes)
