"""A block's queries, side by side: squares of numbers are transposed in registers."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.attention.cpu.work import Work
from tvmbuild.compiler.kernels.vectors import load, number, store


def pack_queries(work: Work) -> None:
    """Write the block's queries as [depth, rows], scaled."""
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
    """Return a row of the block as one of the head; the last one again where the block has more."""
    if work.sizes.rows <= work.form.rows:
        return work.first + row
    return tirx.Min(work.first + row, int64(work.form.rows - 1))


def _transpose(rows: list[Any]) -> list[Any]:
    """Return the columns of as many vectors as each has lanes: halves change places, then quarters, and so on."""
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
