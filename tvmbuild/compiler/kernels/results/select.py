"""The kernel that selects results among candidates: the best scores first, without boxes that overlap a better one.

It takes the best candidate again and again, and drops those that overlap it. That is greedy non-maximum suppression
without a sort, and no limit on the number of candidates is needed. Of equal scores the first candidate wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import THREADS, list_partners, one_block
from tvmbuild.compiler.kernels.vectors import load, local

GEOMETRY = 6
"""The numbers that map boxes to a frame: left and top of the frame in the input, scales of x and y, width, height."""
COLUMNS = 6
"""The columns of a result: left, top, right, bottom, score and class."""
_TINY = 1e-9


def list_candidate_forms(count: int) -> list[Form]:
    """Return the forms of boxes, scores and classes of ``count`` candidates, from which this kernel selects."""
    return [((count, 4), "float32"), ((count,), "float32"), ((count,), "int32")]


def map_to_frame(geometry: Any, value: Any, axis: int) -> Any:
    """Return a coordinate of the input, x for axis 0 and y for axis 1, in the frame's pixels and inside of it."""
    found = (value - geometry[axis]) * geometry[2 + axis]
    return tirx.Max(tirx.Min(found, geometry[4 + axis]), float32(0))


@dataclass(frozen=True)
class More:
    """Values of a candidate behind its scores: keypoints, which are results, or coefficients of its mask."""

    output: Form
    """The output that holds them."""
    count: int
    """The number of values of a candidate."""
    locate: Callable[[Any, int], Any]
    """Returns the place in the output of a candidate's value, by the candidate and the value's number."""
    step: int = 0
    """The number of values of a keypoint, x and y first; 0 means coefficients of a mask."""


@dataclass(frozen=True)
class Selection:
    """The selection of at most ``most`` of ``count`` candidates."""

    count: int
    most: int
    suppress: bool
    """Whether a candidate that overlaps a better one is dropped."""
    agnostic: bool = False
    """Whether only a better one of any class counts; else only one of the same class."""
    more: More | None = None

    @property
    def columns(self) -> int:
        """The number of columns of the results."""
        return COLUMNS + (self.more.count if self.more is not None and self.more.step else 0)

    def list_outputs(self) -> list[Form]:
        """Return the forms of the results, of what a mask needs if there are masks, and of the kernel's own memory.

        The first row of the results begins with their count; a row of a result has left, top, right, bottom, score and
        class, then keypoints. A mask needs a box in the input's pixels and coefficients.
        """
        places = -(-self.count // THREADS) * THREADS
        masks: list[Form] = []
        if self.more is not None and not self.more.step:
            masks = [((self.most, 4), "float32"), ((self.most, self.more.count), "float32")]
        return [
            ((1 + self.most, self.columns), "float32"),
            *masks,
            ((places,), "float32"),
            ((places,), "int32"),
        ]


def write_selection(form: Selection, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function that selects results and maps their boxes to the frame.

    Its arguments are boxes, scores and classes of the candidates, the thresholds of scores and of overlaps, the
    geometry, and the output with more values of candidates. Its outputs are those of ``list_outputs``; results behind
    the count are zeros.
    """
    inputs = [*list_candidate_forms(form.count), ((2,), "float32"), ((GEOMETRY,), "float32")]
    inputs += [] if form.more is None else [form.more.output]
    with begin_kernel("selection", inputs, form.list_outputs()) as (builder, arguments):
        body = _Body(form, arguments)
        if on_gpu:
            _write_block(body)
        else:
            _write_serial(body)
    return mark_scheduled(builder.get())


class _Body:
    """The parts that both forms of the kernel share."""

    def __init__(self, form: Selection, arguments: Sequence[Any]) -> None:
        self.form = form
        self.boxes, self.scores, self.classes, self.thresholds, self.geometry = arguments[:5]
        self.more = None if form.more is None else arguments[5]
        self.rows, *masks = arguments[-len(form.list_outputs()) : -2]
        self.inside: Any = masks[0] if masks else None
        self.kept: Any = masks[1] if masks else None
        self.work, self.places = arguments[-2:]

    def count(self, number: Any) -> None:
        """Write the number of results."""
        T.buffer_store(self.rows, number.astype("float32"), [0])

    def clear(self, row: Any) -> None:
        """Write zeros as a row of the results; row 0 has their count."""
        with T.serial(int64(self.form.columns)) as column:
            T.buffer_store(self.rows, float32(0), [row * self.form.columns + column])

    def emit(self, result: Any, candidate: Any) -> None:
        """Write a candidate as a result, with its box in the frame's pixels."""
        begin = (result + 1) * self.form.columns
        for place in range(4):
            value = T.Bind(self.boxes[candidate * 4 + place])
            T.buffer_store(self.rows, map_to_frame(self.geometry, value, place % 2), [begin + place])
            if self.inside is not None:
                T.buffer_store(self.inside, value, [result * 4 + place])
        T.buffer_store(self.rows, self.scores[candidate], [begin + 4])
        T.buffer_store(self.rows, self.classes[candidate].astype("float32"), [begin + 5])
        more = self.form.more
        if more is None:
            return
        for place in range(more.count):
            value = T.Bind(load(self.more, more.locate(candidate, place)))
            if not more.step:
                T.buffer_store(self.kept, value, [result * more.count + place])
                continue
            axis = place % more.step
            found = map_to_frame(self.geometry, value, axis) if axis < 2 else value
            T.buffer_store(self.rows, found, [begin + COLUMNS + place])

    def overlaps(self, one: Any, other: Any) -> Any:
        """Return whether two candidates share more than the allowed part of their union."""
        a, b = ([T.Bind(self.boxes[each * 4 + place]) for place in range(4)] for each in (one, other))
        across = tirx.Max(tirx.Min(a[2], b[2]) - tirx.Max(a[0], b[0]), float32(0))
        down = tirx.Max(tirx.Min(a[3], b[3]) - tirx.Max(a[1], b[1]), float32(0))
        shared = T.Bind(across * down)
        areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
        return shared > self.thresholds[1] * tirx.Max(areas - shared, float32(_TINY))

    def is_rival(self, one: Any, other: Any) -> Any:
        """Return whether only one of two candidates may be a result, as far as their classes say."""
        return tirx.const(True) if self.form.agnostic else self.classes[one] == self.classes[other]


def _write_serial(body: _Body) -> None:
    """Write the kernel for one thread of a CPU. Only candidates above the threshold are looked at again."""
    form, least = body.form, _least()
    live, best, found = (local(1, "int32") for _ in range(3))
    T.buffer_store(live, int32(0), [0])
    T.buffer_store(found, int32(0), [0])
    body.clear(int64(0))
    with T.serial(int64(form.count)) as candidate, T.If(body.scores[candidate] > body.thresholds[0]), T.Then():
        at = live[0].astype("int64")
        T.buffer_store(body.places, candidate.astype("int32"), [at])
        T.buffer_store(body.work, body.scores[candidate], [at])
        T.buffer_store(live, live[0] + int32(1), [0])
    with T.serial(int64(form.most)) as result:
        body.clear(result + 1)
        with T.If(found[0] == result.astype("int32")), T.Then():
            T.buffer_store(best, int32(-1), [0])
            highest = local(1)
            T.buffer_store(highest, least, [0])
            count = T.Bind(live[0].astype("int64"))
            with T.serial(count) as each, T.If(body.work[each] > highest[0]), T.Then():
                T.buffer_store(highest, body.work[each], [0])
                T.buffer_store(best, each.astype("int32"), [0])
            with T.If(best[0] >= int32(0)), T.Then():
                winner = T.Bind(body.places[best[0].astype("int64")].astype("int64"))
                body.emit(result, winner)
                T.buffer_store(found, found[0] + int32(1), [0])
                T.buffer_store(body.work, least, [best[0].astype("int64")])
                if form.suppress:
                    with T.serial(count) as each:
                        _drop_rival(body, each, winner)
    body.count(found[0])


def _drop_rival(body: _Body, place: Any, winner: Any) -> None:
    """Drop the live candidate at a place if it overlaps the winner."""
    least = _least()
    rival = T.Bind(body.places[place].astype("int64"))
    is_rival = tirx.all(body.work[place] > least, body.is_rival(winner, rival))
    # Two conditions: a box is read only where it can matter.
    with T.If(is_rival), T.Then(), T.If(body.overlaps(winner, rival)), T.Then():
        T.buffer_store(body.work, least, [place])


def _write_block(body: _Body) -> None:
    """Write the kernel for one block of a GPU: its threads share the candidates."""
    with one_block() as thread:
        block = _Block(body, thread)
        block.keep_likely()
        total = block.add_up(block.live[0])
        block.clear_results()
        # No more rounds than there are candidates above the threshold, which are few.
        with T.serial(tirx.Min(total, int32(body.form.most)).astype("int64")) as result:
            block.find_best()
            found = T.Bind(block.best[0] < int32(body.form.count))
            winner = T.Bind(tirx.Min(block.best[0], int32(body.form.count - 1)).astype("int64"))
            with T.If(tirx.all(found, block.owns(result))), T.Then():
                body.emit(result, winner)
            with T.If(tirx.all(found, thread == int64(0))), T.Then():
                body.count(result + 1)
            block.drop(winner, found)


class _Block:
    """The steps that the threads of a block do together.

    A thread owns every 256th candidate, and keeps those of them that are above the threshold in places of its own.
    It also owns every 256th result, so that all writes of a result are in one thread.
    """

    def __init__(self, body: _Body, thread: Any) -> None:
        self.body, self.thread = body, thread
        self.scores, self.places = (
            T.alloc_buffer([THREADS], each, scope="shared", layout=None) for each in ("float32", "int32")
        )
        self.highest, self.best, self.live = local(1), local(1, "int32"), local(1, "int32")

    def owns(self, result: Any) -> Any:
        """Return whether the thread writes a result."""
        return result % int64(THREADS) == self.thread

    def clear_results(self) -> None:
        """Write zeros as all results, and as their count."""
        most = self.body.form.most
        with T.serial(int64(-(-most // THREADS))) as step:
            result = T.Bind(step * THREADS + self.thread)
            with T.If(result < int64(most)), T.Then():
                self.body.clear(result + 1)
        with T.If(self.thread == int64(0)), T.Then():
            self.body.clear(int64(0))

    def keep_likely(self) -> None:
        """Keep the thread's candidates that are above the threshold, and count them."""
        body, count = self.body, self.body.form.count
        T.buffer_store(self.live, int32(0), [0])
        with T.serial(int64(-(-count // THREADS))) as step:
            candidate = T.Bind(step * THREADS + self.thread)
            score = T.Bind(body.scores[tirx.Min(candidate, int64(count - 1))])
            with T.If(tirx.all(candidate < int64(count), score > body.thresholds[0])), T.Then():
                place = T.Bind(self.live[0].astype("int64") * THREADS + self.thread)
                T.buffer_store(body.work, score, [place])
                T.buffer_store(body.places, candidate.astype("int32"), [place])
                T.buffer_store(self.live, self.live[0] + int32(1), [0])

    def add_up(self, number: Any) -> Any:
        """Return the sum of the numbers of all threads."""
        T.buffer_store(self.best, number, [0])
        for partner in list_partners(self.thread):
            T.buffer_store(self.places, self.best[0], [self.thread])
            other = T.Bind(self.places[partner])
            T.buffer_store(self.best, self.best[0] + other, [0])
        return T.Bind(self.best[0])

    def find_best(self) -> None:
        """Let all threads find the candidate with the highest score, or ``count`` if none is left."""
        T.buffer_store(self.highest, _least(), [0])
        T.buffer_store(self.best, int32(self.body.form.count), [0])
        with self._each_live() as (place, candidate):
            value = T.Bind(self.body.work[place])
            self._take(value > self.highest[0], value, candidate)
        for partner in list_partners(self.thread):
            T.buffer_store(self.scores, self.highest[0], [self.thread])
            T.buffer_store(self.places, self.best[0], [self.thread])
            other, index = T.Bind(self.scores[partner]), T.Bind(self.places[partner])
            own = self.highest[0]
            self._take(tirx.any(other > own, tirx.all(other == own, index < self.best[0])), other, index)

    def drop(self, winner: Any, found: Any) -> None:
        """Drop the winner, if one was found, and the candidates that overlap it."""
        body = self.body
        with self._each_live() as (place, number):
            candidate = T.Bind(number.astype("int64"))
            gone = candidate == winner
            if body.form.suppress:
                overlaps = body.overlaps(winner, candidate)
                gone = tirx.any(gone, tirx.all(body.is_rival(winner, candidate), overlaps))
            value = tirx.Select(tirx.all(found, gone), _least(), body.work[place])
            T.buffer_store(body.work, value, [place])

    def _take(self, better: Any, value: Any, index: Any) -> None:
        better = T.Bind(better)
        T.buffer_store(self.best, tirx.Select(better, index, self.best[0]), [0])
        T.buffer_store(self.highest, tirx.Select(better, value, self.highest[0]), [0])

    @contextmanager
    def _each_live(self) -> Iterator[tuple[Any, Any]]:
        """Yield the places of the thread's candidates above the threshold, and the candidate in each."""
        with T.serial(T.Bind(self.live[0].astype("int64"))) as step:
            place = T.Bind(step * THREADS + self.thread)
            yield place, T.Bind(self.body.places[place])


def _least() -> Any:
    """Return the score of candidates that are dropped."""
    return tirx.min_value("float32")
