"""The kernel of ONNX's NonMaxSuppression: for each batch and class, the boxes that do not overlap a better one.

Only boxes above the threshold are looked at, in `Rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_block
from tvmbuild.compiler.kernels.rounds import Rounds, count_places, list_memory
from tvmbuild.compiler.kernels.vectors import local

SUPPRESSION = "suppression"
"""The beginning of the name of the function; the form of the boxes follows."""
_SIDES = 4


@dataclass(frozen=True)
class Suppression:
    """The suppression of ``boxes`` boxes, which keeps at most ``kept`` for each batch and class."""

    batches: int
    classes: int
    boxes: int
    kept: int
    center: bool
    """True if a box is its centre and its size, instead of two corners."""
    threshold: bool
    """True if a score must exceed a threshold."""

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
        memory = list_memory(self.rows, count_places(self.boxes))
        return [((self.rows, self.kept), "int64"), ((self.rows,), "int64"), *memory]


def write_suppression(form: Suppression, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function; zeros are after the boxes that are kept."""
    with begin_kernel(form.name, form.list_inputs(), form.list_outputs()) as (builder, arguments):
        if on_gpu:
            with each_block(form.rows) as (row, thread):
                _Row(form, arguments, row, thread).write()
        else:
            with T.parallel(int64(form.rows)) as row:
                _Row(form, arguments, row, None).write()
    return mark_scheduled(builder.get())


class _Row:
    """The contest of the boxes of one batch and class. The threads of a GPU's block share them."""

    def __init__(self, form: Suppression, arguments: Sequence[Any], row: Any, thread: Any) -> None:
        self.form, self.row = form, row
        self.boxes, self.scores, self.thresholds, self.limits = arguments[:4]
        self.results, self.counts, *memory = arguments[4:]
        self.rounds = Rounds(form.boxes, (memory[0], memory[1]), thread, row * count_places(form.boxes))
        self.corners, self.sizes = local(2 * _SIDES), local(_SIDES + 2)

    def write(self) -> None:
        """Write the whole suppression."""
        total = self.rounds.keep_likely(self._read)
        limit = T.Bind(tirx.Min(total.astype("int64"), self.limits[0]))
        self.rounds.each_own(self.form.kept, lambda result: self.emit(result, int64(0)))
        with T.If(self.rounds.first == int64(0)), T.Then():
            self.finish(int64(0))
        self.rounds.run(limit, self)  # no more rounds than there are boxes above the threshold

    def emit(self, result: Any, winner: Any) -> None:
        """Write a box that is kept."""
        T.buffer_store(self.results, winner, [self.row * self.form.kept + result])

    def finish(self, count: Any) -> None:
        """Write the number of boxes that are kept."""
        T.buffer_store(self.counts, count, [self.row])

    def _read(self, box: Any) -> tuple[Any, Any]:
        """Return the score of a box, and whether it takes part."""
        score = self.scores[self.row * self.form.boxes + box]
        likely = box < self.limits[1]
        return score, tirx.all(likely, score > self.thresholds[1]) if self.form.threshold else likely

    def rules_out(self, one: Any, other: Any) -> Any:
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
