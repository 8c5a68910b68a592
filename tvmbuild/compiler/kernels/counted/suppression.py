"""The kernel of ONNX's NonMaxSuppression: for each batch and class, the boxes that do not overlap a better one.

It takes the best box again and again, and drops those that overlap it; the same pass finds the next best one. Only
boxes above the threshold are looked at. Of equal scores the first box wins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import THREADS, each_block, list_partners
from tvmbuild.compiler.kernels.vectors import local

SUPPRESSION = "suppression"
"""The beginning of the name of the function; the form of the boxes follows."""
_SIDES = 4


@dataclass(frozen=True)
class Suppression:
    """The suppression of ``boxes`` boxes, of which at most ``kept`` are kept for each batch and class."""

    batches: int
    classes: int
    boxes: int
    kept: int
    center: bool
    """Whether a box is its centre and its size, instead of two corners."""
    threshold: bool
    """Whether a score must exceed a threshold."""

    @property
    def rows(self) -> int:
        """The number of batches and classes."""
        return self.batches * self.classes

    @property
    def name(self) -> str:
        """The name of the function."""
        return f"{SUPPRESSION}_{int(self.center)}{int(self.threshold)}"

    def list_inputs(self) -> list[Form]:
        """Return the forms of boxes, scores, both thresholds (overlap, score), and limits (results, boxes)."""
        return [
            ((self.batches, self.boxes, _SIDES), "float32"),
            ((self.batches, self.classes, self.boxes), "float32"),
            ((2,), "float32"),
            ((2,), "int64"),
        ]

    def list_outputs(self) -> list[Form]:
        """Return the forms of the boxes that are kept, their counts, and the kernel's own memory."""
        places = -(-self.boxes // THREADS) * THREADS
        return [
            ((self.rows, self.kept), "int64"),
            ((self.rows,), "int64"),
            ((self.rows, places), "float32"),
            ((self.rows, places), "int32"),
        ]


def write_suppression(form: Suppression, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function; zeros are behind the boxes that are kept."""
    with begin_kernel(form.name, form.list_inputs(), form.list_outputs()) as (builder, arguments):
        if on_gpu:
            with each_block(form.rows) as (row, thread):
                _Row(form, arguments, row, thread).write()
        else:
            with T.parallel(int64(form.rows)) as row:
                _Row(form, arguments, row, None).write()
    return mark_scheduled(builder.get())


class _Row:
    """The boxes of one batch and class. The threads of a GPU's block share them; a CPU has one thread.

    A thread owns every 256th box, and keeps those of them that are left in places of its own. It also owns every 256th
    result, so that all writes of a result are in one thread.
    """

    def __init__(self, form: Suppression, arguments: Sequence[Any], row: Any, thread: Any) -> None:
        self.form, self.row, self.thread = form, row, thread
        self.boxes, self.scores, self.thresholds, self.limits = arguments[:4]
        self.results, self.counts, self.work, self.places = arguments[4:]
        self.step = 1 if thread is None else THREADS
        self.first = int64(0) if thread is None else thread
        self.live, self.best = local(1, "int32"), local(1, "int32")
        self.highest, self.corners, self.sizes = local(1), local(2 * _SIDES), local(_SIDES + 2)
        if thread is not None:
            self.shared_scores, self.shared_places = (
                T.alloc_buffer([THREADS], each, scope="shared", layout=None) for each in ("float32", "int32")
            )

    def write(self) -> None:
        """Write the whole suppression."""
        self._keep_likely()
        total = self._add_up()
        limit = T.Bind(tirx.Min(total.astype("int64"), self.limits[0]))
        self._clear_results()
        # No more rounds than there are boxes above the threshold.
        with T.serial(limit) as result:
            self._share_best()
            found = T.Bind(self.best[0] < int32(self.form.boxes))
            winner = T.Bind(tirx.Min(self.best[0], int32(self.form.boxes - 1)).astype("int64"))
            self._emit(result, winner, found)
            self._drop(winner, found)

    def _keep_likely(self) -> None:
        """Keep the thread's boxes that are above the threshold, and find the best of them."""
        boxes = self.form.boxes
        T.buffer_store(self.live, int32(0), [0])
        self._forget_best()
        with T.serial(int64(-(-boxes // self.step))) as step:
            box = T.Bind(step * self.step + self.first)
            score = T.Bind(self.scores[self.row * boxes + tirx.Min(box, int64(boxes - 1))])
            likely = tirx.all(box < int64(boxes), box < self.limits[1])
            likely = tirx.all(likely, score > self.thresholds[1]) if self.form.threshold else likely
            with T.If(likely), T.Then():
                self._keep(score, box.astype("int32"))

    def _clear_results(self) -> None:
        kept = self.form.kept
        with T.serial(int64(-(-kept // self.step))) as step:
            result = T.Bind(step * self.step + self.first)
            with T.If(result < int64(kept)), T.Then():
                T.buffer_store(self.results, int64(0), [self.row * kept + result])
        with T.If(self.first == int64(0)), T.Then():
            T.buffer_store(self.counts, int64(0), [self.row])

    def _emit(self, result: Any, winner: Any, found: Any) -> None:
        with T.If(tirx.all(found, result % int64(self.step) == self.first)), T.Then():
            T.buffer_store(self.results, winner, [self.row * self.form.kept + result])
        with T.If(tirx.all(found, self.first == int64(0))), T.Then():
            T.buffer_store(self.counts, result + int64(1), [self.row])

    def _drop(self, winner: Any, found: Any) -> None:
        """Drop the winner and the boxes that overlap it, close the gaps, and find the best of the others."""
        count = T.Bind(self.live[0].astype("int64"))
        T.buffer_store(self.live, int32(0), [0])
        self._forget_best()
        with T.serial(count) as index:
            place = T.Bind(self._place(index))
            box = T.Bind(self.places[place])
            # Two conditions: boxes are read only where they can matter.
            is_other = tirx.all(found, box.astype("int64") != winner)
            with T.If(is_other), T.Then():  # noqa: SIM117 - the second condition writes code into the first
                with T.If(tirx.Not(self._overlaps(winner, box.astype("int64")))), T.Then():
                    self._keep(T.Bind(self.work[place]), box)

    def _keep(self, score: Any, box: Any) -> None:
        place = T.Bind(self._place(self.live[0].astype("int64")))
        T.buffer_store(self.work, score, [place])
        T.buffer_store(self.places, box, [place])
        T.buffer_store(self.live, self.live[0] + int32(1), [0])
        self._take(score, box)

    def _place(self, index: Any) -> Any:
        width = -(-self.form.boxes // THREADS) * THREADS
        return self.row * width + index * self.step + self.first

    def _forget_best(self) -> None:
        T.buffer_store(self.highest, float32(-math.inf), [0])
        T.buffer_store(self.best, int32(self.form.boxes), [0])

    def _take(self, score: Any, box: Any) -> None:
        """Let a box be the best one if its score is higher, or equal and the box an earlier one."""
        higher = tirx.any(score > self.highest[0], tirx.all(score == self.highest[0], box < self.best[0]))
        with T.If(higher), T.Then():
            T.buffer_store(self.highest, score, [0])
            T.buffer_store(self.best, box, [0])

    def _add_up(self) -> Any:
        """Return the number of boxes above the threshold, of all threads."""
        if self.thread is None:
            return T.Bind(self.live[0])
        total = local(1, "int32")
        T.buffer_store(total, self.live[0], [0])
        for partner in list_partners(self.thread):
            T.buffer_store(self.shared_places, total[0], [self.thread])
            other = T.Bind(self.shared_places[partner])
            T.buffer_store(total, total[0] + other, [0])
        return T.Bind(total[0])

    def _share_best(self) -> None:
        """Let all threads have the best box of all of them."""
        if self.thread is None:
            return
        for partner in list_partners(self.thread):
            T.buffer_store(self.shared_scores, self.highest[0], [self.thread])
            T.buffer_store(self.shared_places, self.best[0], [self.thread])
            score, box = T.Bind(self.shared_scores[partner]), T.Bind(self.shared_places[partner])
            own = self.highest[0]
            better = T.Bind(tirx.any(score > own, tirx.all(score == own, box < self.best[0])))
            T.buffer_store(self.best, tirx.Select(better, box, self.best[0]), [0])
            T.buffer_store(self.highest, tirx.Select(better, score, own), [0])

    def _overlaps(self, one: Any, other: Any) -> Any:
        """Return whether two boxes share more than the allowed part of their union.

        Values are kept in registers: TVM repeats a bound expression at each use, and then takes minutes to simplify it.
        """
        self._read_box(one, 0)
        self._read_box(other, _SIDES)
        a, b = ([self.corners[place] for place in range(start, start + _SIDES)] for start in (0, _SIDES))
        T.buffer_store(self.sizes, tirx.Min(a[2], b[2]) - tirx.Max(a[0], b[0]), [0])
        T.buffer_store(self.sizes, tirx.Min(a[3], b[3]) - tirx.Max(a[1], b[1]), [1])
        T.buffer_store(self.sizes, (a[2] - a[0]) * (a[3] - a[1]), [2])
        T.buffer_store(self.sizes, (b[2] - b[0]) * (b[3] - b[1]), [3])
        across, down, first, second = (self.sizes[place] for place in range(_SIDES))
        T.buffer_store(self.sizes, across * down, [4])
        shared = self.sizes[4]
        T.buffer_store(self.sizes, first + second - shared, [5])
        union, zero = self.sizes[5], float32(0)
        there = tirx.all(across > zero, down > zero, shared > zero, first > zero, second > zero, union > zero)
        return tirx.all(there, shared / union > self.thresholds[0])

    def _read_box(self, box: Any, into: int) -> None:
        """Keep the smaller and the larger corner of a box."""
        start = (self.row // self.form.classes * self.form.boxes + box) * _SIDES
        values = [self.boxes[start + place] for place in range(_SIDES)]
        for place in range(2):
            one, other = values[place], values[place + 2]
            half = other / float32(2)
            low, high = (one - half, one + half) if self.form.center else (tirx.Min(one, other), tirx.Max(one, other))
            T.buffer_store(self.corners, low, [into + place])
            T.buffer_store(self.corners, high, [into + place + 2])
