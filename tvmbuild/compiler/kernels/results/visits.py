"""The loops over all elements of an output: vectors of one thread of a CPU, or one block of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.kernels.loops import THREADS, each_vector, list_partners
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store, take

LANES = 16
"""The elements of a vector: one vector of AVX-512, two of AVX2, four of NEON."""


@contextmanager
def each_reaching_vector(begin: Any, end: Any) -> Iterator[Any]:
    """Yield the first element of each vector of a span. The last vector may reach beyond the span."""
    with T.serial(T.Bind((end - begin + (LANES - 1)) // LANES)) as step:
        yield T.Bind(begin + step * LANES)


class Visits:
    """The order in which a kernel visits the elements of an output."""

    def __init__(self, count: int, data: Any, begin: Any = 0) -> None:
        """Visit ``count`` elements of ``data`` from ``begin`` on."""
        self.count, self._data, self._begin = count, data, begin

    def load(self, at: Any, lanes: int) -> Any:
        """Load neighbouring elements, as float32."""
        return load(self._data, self._begin + at, lanes)

    def each(self, write: Callable[[Any, int], None]) -> None:
        """Write the loops over all elements; ``write`` takes an element and the length of its vector."""
        raise NotImplementedError

    def fold(self, start: float, add: Callable[[Any, Any], Any], value: Callable[[Any, int], Any]) -> Any:
        """Return the sum, by ``add``, of ``value`` of all elements."""
        raise NotImplementedError

    def find_first(self, value: Any) -> Any:
        """Return the number of the first element that equals a value, int32, or 0 if none does."""
        raise NotImplementedError

    def find_softmax(self) -> tuple[Any, Any]:
        """Return the largest score, and the sum of the exponentials of all scores less the largest."""
        highest = self.find_highest()
        total = self.fold(0.0, lambda a, b: a + b, lambda score, lanes: tirx.exp(score - spread(highest, lanes)))
        return highest, total

    def find_highest(self) -> Any:
        """Return the largest element."""
        return self.fold(float(tirx.min_value("float32").value), tirx.Max, lambda score, _: score)


class VectorVisits(Visits):
    """Vectors, and the elements that are left one by one."""

    def each(self, write: Callable[[Any, int], None]) -> None:
        """Write the loops over all elements."""
        each_vector((0, self.count), LANES, write)

    def fold(self, start: float, add: Callable[[Any, Any], Any], value: Callable[[Any, int], Any]) -> Any:
        """Return the sum of ``value`` of all elements."""
        sums, total = local(LANES), local(1)
        store(sums, number(start, LANES), int64(0), LANES)
        T.buffer_store(total, float32(start), [0])

        def take(at: Any, lanes: int) -> None:
            into = total if lanes == 1 else sums
            found = value(self.load(at, lanes), lanes)
            store(into, add(load(into, int64(0), lanes), found), int64(0), lanes)

        self.each(take)
        with T.serial(int64(LANES)) as lane:
            T.buffer_store(total, add(total[0], sums[lane]), [0])
        return T.Bind(total[0])

    def find_first(self, value: Any) -> Any:
        """Return the number of the first element that equals a value."""
        places, place = local(LANES, "int32"), local(1, "int32")
        store(places, spread(int32(self.count), LANES), int64(0), LANES)
        T.buffer_store(place, int32(self.count), [0])

        def take_first(at: Any, lanes: int) -> None:
            into, first = place if lanes == 1 else places, at.astype("int32")
            numbers = first if lanes == 1 else tirx.Ramp(first, int32(1), lanes)
            last = take(into, int64(0), lanes)
            is_it = self.load(at, lanes) == spread(value, lanes)
            store(into, tirx.Min(last, tirx.Select(is_it, numbers, spread(int32(self.count), lanes))), int64(0), lanes)

        self.each(take_first)
        with T.serial(int64(LANES)) as lane:
            T.buffer_store(place, tirx.Min(place[0], places[lane]), [0])
        return T.Bind(tirx.Select(place[0] < int32(self.count), place[0], int32(0)))


class BlockVisits(Visits):
    """Every 256th element for each thread of a block."""

    def __init__(self, count: int, data: Any, thread: Any, begin: Any = 0) -> None:
        super().__init__(count, data, begin)
        self.thread = thread
        self.shared = T.alloc_buffer([THREADS], "float32", scope="shared", layout=None)

    def each(self, write: Callable[[Any, int], None]) -> None:
        """Write the loops over all elements."""
        with T.serial(int64(-(-self.count // THREADS))) as step:
            at = T.Bind(step * THREADS + self.thread)
            with T.If(at < int64(self.count)), T.Then():
                write(at, 1)

    def fold(self, start: float, add: Callable[[Any, Any], Any], value: Callable[[Any, int], Any]) -> Any:
        """Return the sum of ``value`` of all elements."""
        total = local(1)
        T.buffer_store(total, float32(start), [0])
        self.each(lambda at, _: T.buffer_store(total, add(total[0], value(self.load(at, 1), 1)), [0]))
        for partner in list_partners(self.thread):
            T.buffer_store(self.shared, total[0], [self.thread])
            other = T.Bind(self.shared[partner])
            T.buffer_store(total, add(total[0], other), [0])
        return T.Bind(total[0])

    def find_first(self, value: Any) -> Any:
        """Return the number of the first element that equals a value."""
        place, shared = local(1, "int32"), T.alloc_buffer([THREADS], "int32", scope="shared", layout=None)
        T.buffer_store(place, int32(self.count), [0])

        def take(at: Any, _: int) -> None:
            found = tirx.Select(self.load(at, 1) == value, at.astype("int32"), int32(self.count))
            T.buffer_store(place, tirx.Min(place[0], found), [0])

        self.each(take)
        for partner in list_partners(self.thread):
            T.buffer_store(shared, place[0], [self.thread])
            other = T.Bind(shared[partner])
            T.buffer_store(place, tirx.Min(place[0], other), [0])
        return T.Bind(tirx.Select(place[0] < int32(self.count), place[0], int32(0)))
