"""Vectors along a row, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.schedules.access import collect
from tvmbuild.compiler.schedules.cpu.overlap import keep_apart
from tvmbuild.compiler.schedules.cpu.rows.view import Pass
from tvmbuild.compiler.schedules.cpu.rows.writer import (
    MAX_SUMS,
    Place,
    Vector,
    Writer,
    fold,
    loop,
    nest_loops,
    sequence,
    unfold,
    vectorized,
)


class Along(Writer):
    """A writer of loops with vectors along a row."""

    def choose_width(self) -> int:
        """Return the number of lanes of all vectors of partial sums together."""
        sums = 1
        while 2 * sums <= min(MAX_SUMS, self.extent // self.lanes):
            sums *= 2
        return sums * self.lanes

    def size(self, each: Pass) -> int:
        """Return the number of values that the pass stores: one, or one for each element of a row."""
        return self.rows.count(self.rows.columns) if each.along and not each.combine else 1

    def count_blocks(self) -> int:
        """Return the number of rows."""
        return self.rows.count(self.rows.rows)

    def place_block(self, index: Any) -> Place:
        """Return the place of row ``index``."""
        return unfold(self.rows, self.rows.rows, index)

    def index_kept(self, each: Pass, place: Place) -> Any:
        """Return the index of the element in its row, or 0 if the pass has one value for each row."""
        return fold(self.rows, place) if each.along and not each.combine else int64(0)

    def write_group(self, group: Sequence[Pass], place: Place) -> list[Any]:
        """Return the loops along a row, and the statements before and after them."""
        if not group[0].along:
            return [self.write_value(each, self.value(each, place), place) for each in group]
        reductions = [each for each in group if each.combine]
        sums = self.width // self.lanes if reductions else 1
        *outer, _ = self.rows.columns
        loops = nest_loops(self.rows, outer, place, lambda inside: sequence(self._write_line(group, inside, sums)))
        return [*self.start(group, sums), loops, *(line for each in reductions for line in self._finish(each, place))]

    def _write_line(self, group: Sequence[Pass], place: Place, sums: int) -> list[Any]:
        lanes, whole = self.lanes, self.extent // self.lanes
        turns = whole // sums
        lines: list[Any] = []
        if turns:

            def turn(index: Any) -> Any:
                starts = [index * (sums * lanes) + slot * lanes for slot in range(sums)]
                return sequence([self.step(group, Vector(s, lanes, 0, n), place) for n, s in enumerate(starts)])

            lines.append(loop(int64(turns), turn))
        for slot, vector in enumerate(range(turns * sums, whole)):
            lines.append(self.step(group, Vector(int64(vector * lanes), lanes, 0, slot), place))
        rest = self.extent - whole * lanes
        if rest:
            last = self.step(group, Vector(int64(self.extent - lanes), lanes, lanes - rest), place)
            lines.append(keep_apart(last) if self._passes_on(group) else last)
        return lines

    def _passes_on(self, group: Sequence[Pass]) -> bool:
        """Return whether an element that is kept is computed from one that an earlier group kept."""
        made = {each.store.buffer for each in self.rows.passes if each.along and not each.combine and each not in group}
        keeping = (each for each in group if not each.combine and each.store.buffer in self.kept)
        return any(load.buffer in made for each in keeping for load in collect(each.value).loads)

    def _finish(self, each: Pass, place: Place) -> list[Any]:
        """Combine the lanes of the partial results, one half with the other until one is left, and write the result."""
        partial, half = self.partial[each.store.buffer], self.width // 2
        lines = []
        while half:
            near = min(half, self.lanes)
            for start in range(0, half, near):

                def halve(lane: Any, start: int = start, half: int = half) -> Any:
                    both = each.combine(partial[lane + start], partial[lane + (start + half)])
                    return tirx.BufferStore(partial, both, [lane + start])

                lines.append(vectorized(near, halve))
            half //= 2
        return [*lines, self.write_value(each, partial[int64(0)], place)]
