"""The steps of a block of threads on some keys: scores, their running maximum and weights, and the running outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.gpu.block import Block, is_aligned
from tvmbuild.compiler.kernels.attention.gpu.sizes import THREADS, VECTOR
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, squash, store

LEAST = -3.4028234663852886e38
"""The initial maximum. It is finite, so that a row whose scores are all -inf gets the weights 0, not NaN."""


def write_scores(block: Block, first: Any) -> None:
    """Write the scores of the block's keys, which begin at key ``first``: scaled, capped and masked."""
    busy = block.sizes.row_threads * block.sizes.key_threads
    only_busy(block, busy, lambda: _write_scores(block, first))


def _write_scores(block: Block, first: Any) -> None:
    form, sizes, few = block.form, block.sizes, block.sizes.few
    own_rows, own_keys = sizes.rows // sizes.row_threads, sizes.keys // sizes.key_threads
    row_thread = T.Bind(block.thread // sizes.key_threads)
    key_thread = T.Bind(block.thread % sizes.key_threads)
    rows = [row_thread * own_rows + row for row in range(own_rows)]
    keys = [key * sizes.key_threads + key_thread for key in range(own_keys)]
    sums, left, right = local(own_rows * own_keys), local(own_rows * few), local(own_keys * few)
    places = [(row, key) for row in range(own_rows) for key in range(own_keys)]
    for place in range(len(places)):
        store(sums, number(0), int64(place))
    with T.serial(int64(sizes.depth // few)) as step:
        for own, buffer, each in ((left, block.queries, rows), (right, block.keys, keys)):
            for place, row in enumerate(each):
                store(own, load(buffer, row * sizes.stride + step * few, few), int64(place * few), few)
        for place, (row, key) in enumerate(places):
            for lane in range(few):
                product = load(left, int64(row * few + lane)) * load(right, int64(key * few + lane))
                store(sums, load(sums, int64(place)) + product, int64(place))
    for place, (row, key) in enumerate(places):
        score = squash(load(sums, int64(place)), form.cap)
        at = (
            tirx.Min(block.first + rows[row], int64(form.rows - 1)),
            tirx.Min(first + keys[key], int64(form.keys - 1)),
        )
        for mask, where in zip(form.masks, block.masks, strict=True):
            numbers = load(where.buffer, where.at(*at))
            score = (
                score + numbers if mask.fill is None else tirx.Select(numbers != number(0), score, number(mask.fill))
            )
        store(block.scores, score, rows[row] * sizes.score_stride + keys[key])


def write_weights(block: Block, first: Any) -> None:
    """Replace the scores by weights, exp(score - running maximum), and store the factor that corrects earlier sums."""
    form, sizes = block.form, block.sizes
    row, lane = T.Bind(block.thread // sizes.lanes), T.Bind(block.thread % sizes.lanes)
    steps = -(-sizes.keys // sizes.lanes)
    own, begin = local(steps), row * sizes.score_stride
    own_keys = [step * sizes.lanes + lane for step in range(steps)]

    def is_there(step: int) -> Any:
        """Return the condition that a step's key exists in the block and the attention, or None if it always does."""
        inside = None if (step + 1) * sizes.lanes <= sizes.keys else own_keys[step] < int64(sizes.keys)
        real = None if form.keys % sizes.keys == 0 else first + own_keys[step] < int64(form.keys)
        return real if inside is None else inside if real is None else tirx.And(inside, real)

    highest = local(1)
    store(highest, number(LEAST), int64(0))
    for step, key in enumerate(own_keys):
        inside = (step + 1) * sizes.lanes <= sizes.keys
        score = load(block.scores, begin + (key if inside else tirx.Min(key, int64(sizes.keys - 1))))
        there = is_there(step)
        score = score if there is None else tirx.Select(there, score, number(LEAST))
        store(own, score, int64(step))
        store(highest, tirx.Max(load(highest, int64(0)), load(own, int64(step))), int64(0))
    store(block.found, load(highest, int64(0)), block.thread)
    before = T.Bind(load(block.largest, int64(0)))
    for other in range(sizes.lanes):
        largest = tirx.Max(load(block.largest, int64(0)), load(block.found, row * sizes.lanes + other))
        store(block.largest, largest, int64(0))
    factor = T.Bind(tirx.exp(before - load(block.largest, int64(0))))
    store(block.total, load(block.total, int64(0)) * factor, int64(0))
    for step, key in enumerate(own_keys):
        weight = tirx.exp(load(own, int64(step)) - load(block.largest, int64(0)))
        there = is_there(step)
        weight = T.Bind(weight if there is None else tirx.Select(there, weight, number(0)))
        store(block.total, load(block.total, int64(0)) + weight, int64(0))
        if (step + 1) * sizes.lanes <= sizes.keys:
            store(block.scores, weight, begin + key)
        else:
            with T.If(key < int64(sizes.keys)), T.Then():
                store(block.scores, weight, begin + key)
    with T.If(lane == int64(0)), T.Then():
        store(block.factors, factor, row)


def write_weighted(block: Block) -> None:
    """Correct the running outputs by the factors, and add the weighted values of the block's keys."""
    sizes, columns = block.sizes, block.sizes.columns
    part, group, column = find_output(block)
    count = sizes.keys // sizes.parts
    weights, values = local(sizes.group * VECTOR), local(columns * VECTOR)

    def add() -> None:
        for row in range(sizes.group):
            factor = T.Bind(load(block.factors, group * sizes.group + row))
            for each in range(columns):
                at = int64(row * columns + each)
                store(block.sums, load(block.sums, at) * factor, at)
        with T.serial(int64(count // VECTOR)) as step:
            key = T.Bind(part * count + step * VECTOR)
            for row in range(sizes.group):
                at = (group * sizes.group + row) * sizes.score_stride + key
                store(weights, load(block.scores, at, VECTOR), int64(row * VECTOR), VECTOR)
            for lane in range(VECTOR):
                at = (key + lane) * sizes.width + column * columns
                store(values, load(block.values, at, columns), int64(lane * columns), columns)
            for row in range(sizes.group):
                for each in range(columns):
                    at = int64(row * columns + each)
                    total = load(block.sums, at)
                    for lane in range(VECTOR):
                        weight = load(weights, int64(row * VECTOR + lane))
                        total = total + weight * load(values, int64(lane * columns + each))
                    store(block.sums, total, at)

    only_busy(block, sizes.parts * sizes.row_groups * sizes.column_threads, add)


def write_outputs(block: Block) -> None:
    """Add up the outputs of all parts of the keys, divide them by the sums of weights, and write them."""
    sizes, columns = block.sizes, block.sizes.columns
    part, group, column = find_output(block)
    store(block.found, load(block.total, int64(0)), block.thread)
    at = (part * sizes.rows + group * sizes.group) * sizes.width + column * columns

    def keep() -> None:
        for row in range(sizes.group):
            value = load(block.sums, int64(row * columns), columns)
            store(block.merged, value, at + row * sizes.width, columns)

    if sizes.parts > 1:
        only_busy(block, sizes.parts * sizes.row_groups * sizes.column_threads, keep)

    def write() -> None:
        for row in range(sizes.group):
            _write_row(block, group * sizes.group + row, (row, column))

    only_busy(block, sizes.row_groups * sizes.column_threads, write)


def _write_row(block: Block, row: Any, own: tuple[int, Any]) -> None:
    """Write a thread's numbers of a row.

    ``own`` is (index of the row among the thread's rows, index of the thread among the columns).
    """
    form, sizes, columns = block.form, block.sizes, block.sizes.columns
    total = _add_up([load(block.found, row * sizes.lanes + lane) for lane in range(sizes.lanes)])
    if form.nan_is_zero:  # without any key, the sums are zero, too
        total = tirx.Select(total == number(0), number(1), total)
    total = T.Bind(total)
    few = columns if is_aligned(block.output.operand, sizes.width) else 1
    with T.If(block.first + row < int64(form.rows)), T.Then():
        for begin in range(0, columns, few):
            at = own[1] * columns + begin
            value = load(block.sums, int64(own[0] * columns + begin), few)
            if sizes.parts > 1:
                places = [(part * sizes.rows + row) * sizes.width + at for part in range(sizes.parts)]
                value = _add_up([load(block.merged, place, few) for place in places])
            store(block.output.buffer, value / spread(total, few), block.output.at(block.first + row, at), few)


def _add_up(values: list[Any]) -> Any:
    total = values[0]
    for each in values[1:]:
        total = total + each
    return total


def find_output(block: Block) -> tuple[Any, Any, Any]:
    """Return the indices of a thread's part of the keys, group of rows, and group of columns."""
    sizes = block.sizes
    one = sizes.row_groups * sizes.column_threads
    inside = block.thread % one
    return T.Bind(block.thread // one), T.Bind(inside // sizes.column_threads), T.Bind(inside % sizes.column_threads)


def only_busy(block: Block, busy: int, write: Callable[[], None]) -> None:
    """Run ``write`` in the first ``busy`` threads only."""
    if busy == THREADS:
        write()
    else:
        with T.If(block.thread < int64(busy)), T.Then():
            write()
