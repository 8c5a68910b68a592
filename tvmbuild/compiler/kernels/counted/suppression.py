"""ONNX's NonMaxSuppression: for each batch and class, the boxes that do not overlap a better one.

The kernel here is that of a CPU. Only boxes above the threshold are looked at, in `Rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.counted.overlaps import SIDES, Overlaps
from tvmbuild.compiler.kernels.rounds import Rounds, count_places, list_memory

SUPPRESSION = "suppression"
"""The beginning of the name of the function; the form of the boxes follows."""


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
            ((self.batches, self.boxes, SIDES), "float32"),
            ((self.batches, self.classes, self.boxes), "float32"),
            ((2,), "float32"),
            ((2,), "int64"),
        ]

    def list_results(self) -> list[Form]:
        """Return the forms of the boxes that are kept, and of their counts. The kernels' own memory follows."""
        return [((self.rows, self.kept), "int64"), ((self.rows,), "int64")]

    def list_outputs(self) -> list[Form]:
        """Return the forms of the results and of the memory of a CPU's kernel."""
        return [*self.list_results(), *list_memory(self.rows, count_places(self.boxes))]

    def read_box(self, boxes: Any, row: Any, box: Any) -> list[Any]:
        """Return the four numbers of a box of a batch and class."""
        start = (row // self.classes * self.boxes + box) * SIDES
        return [boxes[start + place] for place in range(SIDES)]


def write_suppression(form: Suppression) -> tirx.PrimFunc:
    """Return the function of a CPU; zeros are after the boxes that are kept."""
    with (
        begin_kernel(form.name, form.list_inputs(), form.list_outputs()) as (builder, arguments),
        T.parallel(int64(form.rows)) as row,
    ):
        _Row(form, arguments, row).write()
    return mark_scheduled(builder.get())


class _Row:
    """The contest of the boxes of one batch and class."""

    def __init__(self, form: Suppression, arguments: Sequence[Any], row: Any) -> None:
        self.form, self.row = form, row
        self.boxes, self.scores, self.thresholds, self.limits = arguments[:4]
        self.results, self.counts, *memory = arguments[4:]
        self.rounds = Rounds(form.boxes, (memory[0], memory[1]), begin=row * count_places(form.boxes))
        self.pair = Overlaps()

    def write(self) -> None:
        """Write the whole suppression."""
        total = self.rounds.keep_likely(self._read)
        limit = T.Bind(tirx.Min(total.astype("int64"), self.limits[0]))
        self.rounds.each_own(self.form.kept, lambda result: self.emit(result, int64(0)))
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
        """Return whether two boxes share more than the allowed part of their union."""
        for place, box in enumerate((one, other)):
            self.pair.read(self.form.read_box(self.boxes, self.row, box), place, center=self.form.center)
        return self.pair.are_beyond(self.thresholds[0])
