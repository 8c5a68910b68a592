"""The common base for writing vectors along a row and across rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.machine.machine import CHUNKS_PER_THREAD, PARALLEL_WORK, Machine
from tvmbuild.compiler.schedules.access import collect
from tvmbuild.compiler.schedules.cpu.rows.view import Pass, Rows

MAX_SUMS = 4
"""The largest number of vectors of partial sums; as many hide the latency of an addition."""
_REPEATABLE = (tirx.Max, tirx.Min)
"""The reductions that an element may enter twice without a change of the result."""


@dataclass(frozen=True)
class Vector:
    """A vector of ``lanes`` elements from index ``start`` on; another vector computes the first ``done`` of them."""

    start: Any
    lanes: int
    done: int = 0
    slot: int = 0
    """The index of the vector of partial results that this vector updates."""


class Writer(ABC):
    """A writer of the loops of one function over rows."""

    def __init__(self, rows: Rows, parameters: Sequence[Any], machine: Machine) -> None:
        self.rows, self.machine = rows, machine
        self.extent = rows.extents[rows.vector]
        widest = machine.lanes(max(each.bits for each in rows.passes))
        self.lanes = min(widest, 1 << (self.extent.bit_length() - 1))
        self.width = self.choose_width()
        outside = set(parameters)
        self.kept = {
            each.store.buffer: local(self.size(each), each.store.buffer)
            for each in rows.passes
            if each.store.buffer not in outside
        }
        self.partial = {each.store.buffer: local(self.width, each.store.buffer) for each in rows.passes if each.combine}

    def write(self) -> Any:
        """Return the loops of the whole function."""
        chunks, most = self.count_blocks(), CHUNKS_PER_THREAD * self.machine.threads
        size = -(-chunks // most)
        shares = -(-chunks // size)
        work = self.rows.count(range(len(self.rows.extents))) * sum(1 + 8 * each.calls for each in self.rows.passes)
        chunk = variable("chunk")

        def block(index: Any) -> Any:
            return self.write_block(self.place_block(chunk * size + index))

        inner = loop(tirx.min(int64(size), int64(chunks) - chunk * size), block) if size > 1 else block(int64(0))
        body = sequence([*map(tirx.AllocBuffer, [*self.kept.values(), *self.partial.values()]), inner])
        divided = self.machine.threads > 1 and work >= PARALLEL_WORK and shares > 1
        kind = tirx.ForKind.PARALLEL if divided else tirx.ForKind.SERIAL
        return tirx.For(chunk, int64(0), int64(shares), kind, body)

    @abstractmethod
    def choose_width(self) -> int:
        """Return the number of partial results of a reduction."""

    @abstractmethod
    def size(self, each: Pass) -> int:
        """Return the number of a pass's values that are kept for one block of rows."""

    @abstractmethod
    def count_blocks(self) -> int:
        """Return the number of blocks that the rows are divided into."""

    @abstractmethod
    def place_block(self, index: Any) -> Place:
        """Return the place at which the block of rows with this index begins."""

    @abstractmethod
    def write_group(self, group: Sequence[Pass], place: Place) -> list[Any]:
        """Return the statements of a group of passes for a block of rows."""

    @abstractmethod
    def index_kept(self, each: Pass, place: Place) -> Any:
        """Return the index of the pass's value at a place among the kept values."""

    def write_block(self, place: Place) -> Any:
        """Return the statements of all passes for a block of rows."""
        return sequence([each for group in self.list_groups() for each in self.write_group(group, place)])

    def list_groups(self) -> list[list[Pass]]:
        """Return the groups of passes that share a loop, in order.

        No pass of a group needs a value that is known only after the loop.
        """
        groups: list[list[Pass]] = []
        for each in self.rows.passes:
            reads = {load.buffer for load in collect(each.value).loads}
            earliest = 0
            for position, group in enumerate(groups):
                for other in group:
                    if other.store.buffer in reads:
                        same_loop = other.along and not other.combine and each.along
                        earliest = max(earliest, position if same_loop else position + 1)
            fitting = (n for n in range(earliest, len(groups)) if each.along and groups[n][0].along)
            found = next(fitting, None)
            if found is not None:
                groups[found].append(each)
            elif each.along:
                groups.append([each])
            else:
                groups.insert(earliest, [each])
        return groups

    def value(self, each: Pass, place: Place) -> Any:
        """Return the expression of the pass's value at a place."""

        def on_load(load: Any) -> Any:
            made = self.kept.get(load.source)
            if made is None:
                return load
            maker = next(other for other in self.rows.passes if other.store.buffer.same_as(load.source))
            return made[self.index_kept(maker, place)]

        return put(tvm_ffi.structural_map(each.value, [(tvm.ir.TensorLoad, on_load)]), each, place)

    def write_value(self, each: Pass, value: Any, place: Place) -> Any:
        """Return the statement that stores a value of the pass."""
        made = self.kept.get(each.store.buffer)
        if made is not None:
            return tirx.BufferStore(made, value, [self.index_kept(each, place)])
        return tirx.BufferStore(each.store.buffer, value, [put(index, each, place) for index in each.store.indices])

    def step(self, group: Sequence[Pass], vector: Vector, place: Place) -> Any:
        """Return the statements of the group's passes for one vector."""

        def at(lane: Any) -> Any:
            here = {**place, self.rows.vector: vector.start + lane}
            return sequence([self._element(each, vector, here, lane) for each in group])

        return vectorized(vector.lanes, at)

    def _element(self, each: Pass, vector: Vector, place: Place, lane: Any) -> Any:
        value = self.value(each, place)
        if not each.combine:
            return self.write_value(each, value, place)
        if vector.done and each.combine not in _REPEATABLE:
            value = tirx.Select(lane >= vector.done, value, each.identity)
        partial = self.partial[each.store.buffer]
        slot = lane + vector.slot * self.lanes
        return tirx.BufferStore(partial, each.combine(partial[slot], value), [slot])

    def start(self, group: Sequence[Pass], vectors: int) -> list[Any]:
        """Return the statements that initialise the group's reductions."""

        def begin(each: Pass, slot: int) -> Any:
            partial = self.partial[each.store.buffer]
            return vectorized(
                self.lanes, lambda lane: tirx.BufferStore(partial, each.identity, [lane + slot * self.lanes])
            )

        return [begin(each, slot) for each in group if each.combine for slot in range(vectors)]


# Loops, and places within them.

Place = Mapping[int, Any]
"""An axis → the index along it."""


def put(expr: Any, each: Pass, place: Place) -> Any:
    """Replace the block's variables in an expression by the indices of a place; idle variables become 0."""

    def on_var(var: Any) -> Any:
        if var in each.axes:
            return place[each.axes[var]]
        return int64(0) if var in each.idle else var

    return tvm_ffi.structural_map(expr, [(tvm.ir.Var, on_var)])


def fold(rows: Rows, place: Place) -> Any:
    """Return the linear index of a place in its row."""
    index: Any = int64(0)
    for axis in rows.columns:
        index = index * rows.extents[axis] + place[axis]
    return index


def unfold(rows: Rows, axes: Sequence[int], index: Any) -> dict[int, Any]:
    """Return the place along ``axes`` that has the linear index ``index``."""
    place: dict[int, Any] = {}
    for axis in reversed(axes):
        place[axis] = index % rows.extents[axis]
        index = index // rows.extents[axis]
    return place


def nest_loops(rows: Rows, axes: Sequence[int], place: Place, body: Callable[[Place], Any]) -> Any:
    """Return loops over the axes, outermost first, around the statement that ``body`` returns for a place."""
    if not axes:
        return body(place)
    first, *others = axes
    return loop(int64(rows.extents[first]), lambda i: nest_loops(rows, others, {**place, first: i}, body))


def loop(extent: Any, body: Callable[[Any], Any]) -> Any:
    """Return a loop from 0 to ``extent`` around the statement that ``body`` returns for the loop's variable."""
    index = variable("i")
    return tirx.For(index, int64(0), extent, tirx.ForKind.SERIAL, body(index))


def vectorized(lanes: int, body: Callable[[Any], Any]) -> Any:
    """Return a vectorised loop over ``lanes`` around the statement that ``body`` returns for a lane."""
    if lanes == 1:
        return body(int64(0))
    lane = variable("lane")
    return tirx.For(lane, int64(0), int64(lanes), tirx.ForKind.VECTORIZED, body(lane))


def sequence(statements: Sequence[Any]) -> Any:
    """Return the statements as one statement."""
    return tirx.SeqStmt(list(statements)) if len(statements) > 1 else statements[0]


def local(size: int, like: Any) -> Any:
    """Return a local buffer of ``size`` elements, with the dtype and the name of the buffer ``like``."""
    return tirx.decl_buffer((int64(size),), str(like.dtype), str(like.name))


def variable(name: str) -> Any:
    """Return a new int64 index variable."""
    return tirx.Var(name, "int64")
