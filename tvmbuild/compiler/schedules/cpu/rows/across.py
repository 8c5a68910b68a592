"""Vectors across rows: a vector has one element of each of several neighbouring rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.schedules.cpu.rows.view import Pass
from tvmbuild.compiler.schedules.cpu.rows.writer import (
    Place,
    Vector,
    Writer,
    fold,
    nest_loops,
    sequence,
    unfold,
    vectorized,
)

_START = -1
"""The key of a place for the index at which the vectors of a block of rows begin."""


class Across(Writer):
    """A writer of loops with vectors across rows."""

    def choose_width(self) -> int:
        """Return the number of rows in a block.

        A block has several vectors of rows, to hide the latency of an addition, if enough blocks are left for threads.
        """
        others = self.rows.count(self.rows.rows) // self.extent
        enough = 2 * self.machine.threads
        fitting = [n for n in (4, 2) if n * self.lanes <= self.extent]
        return self.lanes * next((n for n in fitting if others * (self.extent // (n * self.lanes)) >= enough), 1)

    def size(self, each: Pass) -> int:
        """Return the number of kept values: one for each row of a block, or one for each of its elements."""
        return self.width * (self.rows.count(self.rows.columns) if each.along and not each.combine else 1)

    def count_blocks(self) -> int:
        """Return the number of blocks of rows; the last block along the vectors is moved back to end with the rows."""
        return self.rows.count(self.rows.rows) // self.extent * -(-self.extent // self.width)

    def place_block(self, index: Any) -> Place:
        """Return the place at which block ``index`` begins."""
        blocks = -(-self.extent // self.width)
        others = [axis for axis in self.rows.rows if axis != self.rows.vector]
        start = tirx.min(index % blocks * self.width, int64(self.extent - self.width))
        return {**unfold(self.rows, others, index // blocks), _START: start, self.rows.vector: start}

    def index_kept(self, each: Pass, place: Place) -> Any:
        """Return the index of the pass's value at a place; the rows of a block are the innermost dimension."""
        near = place[self.rows.vector] - place[_START]
        return fold(self.rows, place) * self.width + near if each.along and not each.combine else near

    def write_group(self, group: Sequence[Pass], place: Place) -> list[Any]:
        """Return the loops over the columns of a block of rows, and the statements before and after them."""
        vectors = self.width // self.lanes
        places = [Vector(place[_START] + n * self.lanes, self.lanes, 0, n) for n in range(vectors)]

        def steps(inside: Place) -> Any:
            return sequence([self.step(group, vector, inside) for vector in places])

        if not group[0].along:
            return [steps(place)]
        loops = nest_loops(self.rows, self.rows.columns, place, steps)
        finish = [self._step_out(each, vector, place) for each in group if each.combine for vector in places]
        return [*self.start(group, vectors), loops, *finish]

    def _step_out(self, each: Pass, vector: Vector, place: Place) -> Any:
        def out(lane: Any) -> Any:
            here = {**place, self.rows.vector: vector.start + lane}
            return self.write_value(each, self.partial[each.store.buffer][lane + vector.slot * self.lanes], here)

        return vectorized(self.lanes, out)
