"""The kernels that write updates into a copy of a tensor: on a GPU a thread for each update, on a CPU rows in vectors.

Updates that are combined have a thread for each element of the data, which looks at all of them, or a block for a few
thousand elements, whose threads look at one update each.

TVM's functions give a thread to each column and let it go through all updates: where they are rows of 64 elements, 64
threads work; where they are single elements, one does. On an H200, 12,000 rows of 64 elements into 50,000 rows take
26 µs, and 2,120 µs by TVM's function; 8,400 single elements take 15 µs and 549 µs. On a CPU they start the pool's
threads for each row, and trust indices: one outside the data writes over other memory.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import DataType, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.loops import THREADS, each_block, each_chunk, each_thread, each_vector, where
from tvmbuild.compiler.kernels.vectors import local, store, take
from tvmbuild.compiler.machine.machine import PARALLEL_WORK, Machine

NAME = "scatter"
"""The name of the function."""
TOGETHER = 8
"""The number of updates that a GPU's thread looks at in one iteration: their indices are loaded side by side."""


@dataclass(frozen=True)
class Scatter:
    """The shapes of a scatter's operands, and where its updates go.

    With an ``axis`` (ScatterElements), an index replaces an update's own place along it. Without one (ScatterND), the
    last axis of the indices holds the places along the data's first axes; the importer has counted them from the front.
    """

    data: tuple[int, ...]
    indices: tuple[int, ...]
    updates: tuple[int, ...]
    dtype: str
    index_dtype: str
    axis: int | None = None
    reduction: str = "update"

    @property
    def rows(self) -> int:
        """The number of updates of a ScatterND."""
        return math.prod(self.indices[:-1])

    @property
    def width(self) -> int:
        """The number of neighbouring elements that an index of a ScatterND chooses."""
        return math.prod(self.data[self.indices[-1] :])

    def find_place(self, indices: Any, update: Any) -> tuple[Any, Any]:
        """Return (where an update goes in the flat data, whether this is inside)."""
        if self.axis is None:
            row, column = T.Bind(update // self.width), T.Bind(update % self.width)
            place, inside = self.find_row(indices, row)
            return place + column, inside
        steps = _strides(self.data)
        places = _coordinates(update, self.updates)
        places[self.axis], inside = self.find_cell(indices, update)
        return sum((place * step for place, step in zip(places, steps, strict=True)), int64(0)), inside

    def find_row(self, indices: Any, row: Any) -> tuple[Any, Any]:
        """Return (where a row of a ScatterND's updates begins in the flat data, whether this is inside)."""
        depth, steps = self.indices[-1], _strides(self.data)
        place, inside = int64(0), tirx.const(True, "bool")
        for axis in range(depth):
            index, fits = _check(indices[row * depth + axis], self.data[axis])
            place, inside = place + index * steps[axis], tirx.And(inside, fits)
        return place, inside

    @property
    def updates_of_element(self) -> int:
        """The number of updates that may meet an element."""
        return self.rows if self.axis is None else self.updates[self.axis]

    @property
    def cells(self) -> int:
        """The number of elements of a line: those of the data that an update may meet, by its index."""
        return math.prod(self.data[: self.indices[-1]]) if self.axis is None else self.data[self.axis]

    @property
    def step(self) -> int:
        """The step from one element of a line to the next in the flat data."""
        return self.width if self.axis is None else _strides(self.data)[self.axis]

    @property
    def lines(self) -> int:
        """The number of lines."""
        return math.prod(self.data) // self.cells

    def find_cell(self, indices: Any, update: Any) -> tuple[Any, Any]:
        """Return the element of its line that an update meets, and whether it is inside."""
        if self.axis is None:
            place, inside = self.find_row(indices, T.Bind(update // self.width))
            return place // self.width, inside
        size = self.data[self.axis]
        index = T.Bind(indices[update].astype("int64"))
        return _check(tirx.Select(index < int64(0), index + size, index), size)

    def find_updates(self, place: Any) -> tuple[Any, Any, int]:
        """Return the first update that may meet an element of the flat data, whether there is one, and their step."""
        if self.axis is None:
            return T.Bind(place % self.width), tirx.const(True, "bool"), self.width
        steps, own = _strides(self.updates), _coordinates(place, self.data)
        own[self.axis] = int64(0)
        fits = tirx.all(*(at < size for at, size in zip(own, self.updates, strict=True)))
        first = T.Bind(sum((at * step for at, step in zip(own, steps, strict=True)), int64(0)))
        return first, fits, steps[self.axis]

    def combine(self, old: Any, new: Any) -> Any:
        """Return the new value of an element that an update meets."""
        return _REDUCTIONS[self.reduction](old, new)


_REDUCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "update": lambda _, new: new,
    "add": operator.add,
    "mul": operator.mul,
    # As in ONNX Runtime, an update that is NaN is the result, and one after a NaN, too.
    "min": lambda old, new: tirx.Select(old < new, old, new),
    "max": lambda old, new: tirx.Select(old > new, old, new),
}


CELLS = 8 * THREADS
"""The number of elements of a line for which a block combines updates: some for each thread."""


def write_block_scatter(form: Scatter) -> tirx.PrimFunc:
    """Return the function of `write_scatter` that combines updates by blocks, each for a part of a line.

    Each thread loads an update; then all threads look at all of these, and each combines those of its own elements.
    """
    inputs = [(form.data, form.dtype), (form.indices, form.index_dtype), (form.updates, form.dtype)]
    parts, count = -(-form.cells // CELLS), form.updates_of_element
    with (
        begin_kernel(NAME, inputs, [(form.data, form.dtype)]) as (builder, (data, indices, updates, result)),
        each_block(form.lines * parts) as (block, thread),
    ):
        line, begin = T.Bind(block // parts), T.Bind(block % parts * CELLS)
        start = T.Bind(line // form.step * (form.cells * form.step) + line % form.step)
        wanted, values = (
            T.alloc_buffer([THREADS], dtype, scope="shared", layout=None) for dtype in ("int32", form.dtype)
        )
        own = [T.Bind(begin + place + thread) for place in range(0, CELLS, THREADS)]
        places = [T.Bind(start + tirx.Min(cell, int64(form.cells - 1)) * form.step) for cell in own]
        found = local(len(own), form.dtype)
        for number, place in enumerate(places):
            T.buffer_store(found, data[place], [number])
        first, fits, step = form.find_updates(start)
        with T.serial(int64(-(-count // THREADS))) as run:
            number = T.Bind(run * THREADS + thread)
            update = T.Bind(tirx.Select(fits, first + tirx.Min(number, int64(count - 1)) * step, int64(0)))
            cell, inside = form.find_cell(indices, update)
            at = T.Bind(cell - begin)
            is_met = tirx.all(fits, inside, number < int64(count), at >= int64(0), at < int64(CELLS))
            T.buffer_store(wanted, tirx.Select(is_met, at, int64(-1)).astype("int32"), [thread])
            T.buffer_store(values, updates[update], [thread])
            with T.serial(int64(THREADS // TOGETHER)) as few, T.unroll(int64(TOGETHER)) as each:
                other = T.Bind(few * TOGETHER + each)
                met = T.Bind(wanted[other])
                is_own = tirx.all(met >= int32(0), met % int32(THREADS) == thread.astype("int32"))
                with T.If(is_own), T.Then():
                    value, mine = T.Bind(values[other]), T.Bind(met // int32(THREADS))
                    for number_of_own in range(len(own)):
                        old = found[number_of_own]
                        new = tirx.Select(mine == int32(number_of_own), form.combine(old, value), old)
                        T.buffer_store(found, new, [number_of_own])
        for number, (cell, place) in enumerate(zip(own, places, strict=True)):
            with where(cell < int64(form.cells), always=form.cells % CELLS == 0):
                T.buffer_store(result, found[number], [place])
    return mark_scheduled(builder.get())


def write_scatter(form: Scatter) -> tirx.PrimFunc:
    """Return the function (data, indices, updates, result); an index outside the data writes nothing.

    Updates of the same element that are combined follow their order: the element's thread looks at all of them.
    """
    inputs = [(form.data, form.dtype), (form.indices, form.index_dtype), (form.updates, form.dtype)]
    with begin_kernel(NAME, inputs, [(form.data, form.dtype)]) as (builder, (data, indices, updates, result)):
        with each_thread(math.prod(form.data)) as place:
            if form.reduction == "update":
                T.buffer_store(result, data[place], [place])
            else:
                T.buffer_store(result, _combine(form, place, (data, indices, updates)), [place])
        if form.reduction == "update":
            with each_thread(math.prod(form.updates)) as update:
                place, inside = form.find_place(indices, update)
                with T.If(inside), T.Then():
                    T.buffer_store(result, updates[update], [place])
    return mark_scheduled(builder.get())


def _combine(form: Scatter, place: Any, buffers: tuple[Any, Any, Any]) -> Any:
    """Return an element combined with all updates that meet it, in their order.

    It stays in a register: a store that may meet the indices would keep the next ones from being loaded ahead.
    """
    data, indices, updates = buffers
    found = local(1, form.dtype)
    T.buffer_store(found, data[place], [0])
    first, fits, step = form.find_updates(place)
    with where(fits, always=form.axis is None), _each_step(form.updates_of_element) as number:
        update = T.Bind(first + number * step)
        met, inside = form.find_place(indices, update)
        with T.If(tirx.And(inside, met == place)), T.Then():
            T.buffer_store(found, form.combine(found[0], updates[update]), [0])
    return found[0]


@contextmanager
def _each_step(count: int) -> Iterator[Any]:
    """Yield the numbers to ``count``, a few in each iteration of a loop."""
    few = min(count, TOGETHER)
    with T.serial(int64(-(-count // few))) as run, T.unroll(int64(few)) as step:
        number = T.Bind(run * few + step)
        with where(number < int64(count), always=count % few == 0):
            yield number


def write_scatter_on_cpu(form: Scatter, machine: Machine) -> tirx.PrimFunc:
    """Return the same function for a CPU, with any reduction; updates of the same element follow their order."""
    inputs = [(form.data, form.dtype), (form.indices, form.index_dtype), (form.updates, form.dtype)]
    with begin_kernel(NAME, inputs, [(form.data, form.dtype)]) as (builder, buffers):
        kernel = _OnCpu(form, machine, *buffers)
        kernel.write_rows() if form.axis is None else kernel.write_elements()
    return mark_scheduled(builder.get())


@dataclass(frozen=True)
class _OnCpu:
    form: Scatter
    machine: Machine
    data: Any
    indices: Any
    updates: Any
    result: Any

    @property
    def lanes(self) -> int:
        """Return the number of elements of a vector; TVM has no vectors of booleans."""
        return 1 if self.form.dtype == "bool" else self.machine.lanes(DataType(self.form.dtype).bits)

    @property
    def is_large(self) -> bool:
        """Return whether threads share the work."""
        return math.prod(self.form.data) + math.prod(self.form.updates) >= PARALLEL_WORK

    def _count_parts(self, width: int) -> int:
        """Return the number of parts of neighbouring elements, whole vectors each, that threads share."""
        threads = self.machine.threads if self.is_large else 1
        parts = [each for each in range(1, threads + 1) if width % each == 0 and width // each % self.lanes == 0]
        return max(parts, default=1)

    def write_rows(self) -> None:
        """Write the body of a ScatterND. Threads share the columns."""
        parts = self._count_parts(self.form.width)
        if parts == 1:
            self._write_columns(int64(0), self.form.width)
            return
        with T.parallel(int64(parts)) as part:
            self._write_columns(T.Bind(part * (self.form.width // parts)), self.form.width // parts)

    def _write_columns(self, first: Any, count: int) -> None:
        width, size = self.form.width, math.prod(self.form.data)
        if count == width:
            each_vector((0, size), self.lanes, self._copy)
        else:
            with T.serial(int64(size // width)) as cell:
                each_vector((0, count), self.lanes, lambda at, step: self._copy(cell * width + first + at, step))
        with T.serial(int64(self.form.rows)) as row:
            place, inside = self.form.find_row(self.indices, row)
            with T.If(inside), T.Then():
                each_vector(
                    (0, count),
                    self.lanes,
                    lambda at, step: self._update(place + first + at, row * width + first + at, step),
                )

    def write_elements(self) -> None:
        """Write the body of a ScatterElements. Threads share the places before the axis and after it."""
        axis, count = self.form.axis or 0, math.prod(self.form.data)
        before, along, after = (
            math.prod(self.form.updates[part]) for part in (slice(axis), slice(axis, axis + 1), slice(axis + 1, None))
        )
        parts = self._count_parts(after) if before < self.machine.threads else 1
        part = after // parts
        if self.is_large and count >= self.lanes:
            with each_chunk(count, self.lanes) as at:
                self._copy(at, self.lanes)
        else:
            each_vector((0, count), self.lanes, self._copy)
        share = T.parallel if self.is_large and before * parts > 1 else T.serial
        with share(int64(before * parts)) as number, T.serial(int64(along)) as step, T.serial(int64(part)) as inner:
            at = T.Bind((number // parts * along + step) * after + number % parts * part + inner)
            place, inside = self.form.find_place(self.indices, at)
            with T.If(inside), T.Then():
                self._update(place, at, 1)

    def _copy(self, at: Any, step: int) -> None:
        store(self.result, take(self.data, at, step), at, step)

    def _update(self, place: Any, at: Any, step: int) -> None:
        old, new = take(self.result, place, step), take(self.updates, at, step)
        store(self.result, self.form.combine(old, new), place, step)


def _check(index: Any, size: int) -> tuple[Any, Any]:
    """Return an index as int64, and whether it is inside."""
    place = T.Bind(index.astype("int64"))
    return place, tirx.And(place >= int64(0), place < int64(size))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _coordinates(place: Any, shape: Sequence[int]) -> list[Any]:
    return [place // step % size for step, size in zip(_strides(shape), shape, strict=True)]
