"""The kernel that selects results among candidates: the best scores first, without boxes that overlap a better one.

It takes the best candidate again and again, and drops those that overlap it. That is greedy non-maximum suppression
without a sort, and no limit on the number of candidates is needed. Of equal scores the first candidate wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import THREADS
from tvmbuild.compiler.kernels.vectors import local

GEOMETRY = 6
"""The numbers that map boxes to a frame: left and top of the frame in the input, scales of x and y, width, height."""
_TINY = 1e-9


@dataclass(frozen=True)
class Selection:
    """The selection of at most ``most`` of ``count`` candidates."""

    count: int
    most: int
    suppress: bool
    """Whether a candidate that overlaps a better one is dropped."""
    agnostic: bool = False
    """Whether only a better one of any class counts; else only one of the same class."""

    def list_outputs(self) -> list[Form]:
        """Return the forms of boxes, scores, classes, the count of results, and the kernel's own memory."""
        places = -(-self.count // THREADS) * THREADS
        return [
            ((self.most, 4), "float32"),
            ((self.most,), "float32"),
            ((self.most,), "int32"),
            ((1,), "int32"),
            ((places,), "float32"),
            ((places,), "int32"),
        ]


def write_selection(form: Selection, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function that selects results and maps their boxes to the frame.

    Its arguments are boxes, scores and classes of the candidates, the thresholds of scores and of overlaps, and the
    geometry. Its outputs are those of ``list_outputs``; results behind the count are zeros.
    """
    inputs: list[Form] = [
        ((form.count, 4), "float32"),
        ((form.count,), "float32"),
        ((form.count,), "int32"),
        ((2,), "float32"),
        ((GEOMETRY,), "float32"),
    ]
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
        self.out_boxes, self.out_scores, self.out_classes, self.out_count, self.work, self.places = arguments[5:]

    def clear(self, result: Any) -> None:
        """Write zeros as a result."""
        for place in range(4):
            T.buffer_store(self.out_boxes, float32(0), [result * 4 + place])
        T.buffer_store(self.out_scores, float32(0), [result])
        T.buffer_store(self.out_classes, int32(0), [result])

    def emit(self, result: Any, candidate: Any) -> None:
        """Write a candidate as a result, with its box in the frame's pixels."""
        for place in range(4):
            axis = place % 2
            value = (self.boxes[candidate * 4 + place] - self.geometry[axis]) * self.geometry[2 + axis]
            inside = tirx.Max(tirx.Min(value, self.geometry[4 + axis]), float32(0))
            T.buffer_store(self.out_boxes, inside, [result * 4 + place])
        T.buffer_store(self.out_scores, self.scores[candidate], [result])
        T.buffer_store(self.out_classes, self.classes[candidate], [result])

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
    form, least = body.form, tirx.min_value("float32")
    live, best = local(1, "int32"), local(1, "int32")
    T.buffer_store(live, int32(0), [0])
    T.buffer_store(body.out_count, int32(0), [0])
    with T.serial(int64(form.count)) as candidate:
        with T.If(body.scores[candidate] > body.thresholds[0]), T.Then():
            at = live[0].astype("int64")
            T.buffer_store(body.places, candidate.astype("int32"), [at])
            T.buffer_store(body.work, body.scores[candidate], [at])
            T.buffer_store(live, live[0] + int32(1), [0])
    with T.serial(int64(form.most)) as result:
        body.clear(result)
        with T.If(body.out_count[0] == result.astype("int32")), T.Then():
            T.buffer_store(best, int32(-1), [0])
            highest = local(1)
            T.buffer_store(highest, least, [0])
            with T.serial(T.Bind(live[0].astype("int64"))) as each:
                with T.If(body.work[each] > highest[0]), T.Then():
                    T.buffer_store(highest, body.work[each], [0])
                    T.buffer_store(best, each.astype("int32"), [0])
            with T.If(best[0] >= int32(0)), T.Then():
                winner = T.Bind(body.places[best[0].astype("int64")].astype("int64"))
                body.emit(result, winner)
                T.buffer_store(body.out_count, body.out_count[0] + int32(1), [0])
                T.buffer_store(body.work, least, [best[0].astype("int64")])
                if form.suppress:
                    with T.serial(T.Bind(live[0].astype("int64"))) as each:
                        rival = T.Bind(body.places[each].astype("int64"))
                        with T.If(tirx.all(body.work[each] > least, body.is_rival(winner, rival))), T.Then():
                            with T.If(body.overlaps(winner, rival)), T.Then():
                                T.buffer_store(body.work, least, [each])


def _write_block(body: _Body) -> None:
    """Write the kernel for one block of a GPU: its threads share the candidates."""
    form, least = body.form, tirx.min_value("float32")
    steps = -(-form.count // THREADS)
    with (
        T.thread_binding(int64(0), int64(1), thread="blockIdx.x"),
        T.thread_binding(int64(0), int64(THREADS), thread="threadIdx.x") as thread,
    ):
        scores, places = (T.alloc_buffer([THREADS], each, scope="shared", layout=None) for each in ("float32", "int32"))
        highest, best = local(1), local(1, "int32")

        def each_own(write: Any) -> None:
            """Write the loop over a thread's own places, with the candidate of each; the last places have none."""
            with T.serial(int64(steps)) as step:
                place = T.Bind(step * THREADS + thread)
                write(place, T.Bind(tirx.Min(place, int64(form.count - 1))))

        def keep_likely(place: Any, candidate: Any) -> None:
            likely = tirx.all(body.scores[candidate] > body.thresholds[0], place < int64(form.count))
            T.buffer_store(body.work, tirx.Select(likely, body.scores[candidate], least), [place])

        def find_best(place: Any, _candidate: Any) -> None:
            value = T.Bind(body.work[place])
            better = T.Bind(value > highest[0])
            T.buffer_store(best, tirx.Select(better, place.astype("int32"), best[0]), [0])
            T.buffer_store(highest, tirx.Select(better, value, highest[0]), [0])

        each_own(keep_likely)
        with T.If(thread == int64(0)), T.Then():
            T.buffer_store(body.out_count, int32(0), [0])
        with T.serial(int64(form.most)) as result:
            T.buffer_store(highest, least, [0])
            T.buffer_store(best, int32(form.count), [0])
            each_own(find_best)
            T.buffer_store(scores, highest[0], [thread])
            T.buffer_store(places, best[0], [thread])
            stride = THREADS // 2
            while stride:
                # Without a branch, in which TVM could not wait for other threads: each pairs with its mirror image.
                mirror = T.Bind(tirx.bitwise_xor(thread, int64(stride)))
                other, index = T.Bind(scores[mirror]), T.Bind(places[mirror])
                wins = T.Bind(tirx.any(other > highest[0], tirx.all(other == highest[0], index < best[0])))
                T.buffer_store(best, tirx.Select(wins, index, best[0]), [0])
                T.buffer_store(highest, tirx.Select(wins, other, highest[0]), [0])
                stride //= 2
                if stride:
                    T.buffer_store(scores, highest[0], [thread])
                    T.buffer_store(places, best[0], [thread])
            # All threads have found the same candidate.
            found = T.Bind(best[0] < int32(form.count))
            winner = T.Bind(tirx.Min(best[0], int32(form.count - 1)).astype("int64"))
            with T.If(thread == int64(0)), T.Then():
                body.clear(result)
                with T.If(found), T.Then():
                    body.emit(result, winner)
                    T.buffer_store(body.out_count, result.astype("int32") + int32(1), [0])

            def drop(place: Any, candidate: Any) -> None:
                rival = tirx.const(False)
                if form.suppress:
                    overlaps = body.overlaps(winner, candidate)
                    rival = tirx.all(body.is_rival(winner, candidate), overlaps)
                gone = tirx.all(found, tirx.any(place == winner, rival))
                T.buffer_store(body.work, tirx.Select(gone, least, body.work[place]), [place])

            each_own(drop)
