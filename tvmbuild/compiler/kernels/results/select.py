"""The kernel that selects results among candidates: the best scores first, without boxes that overlap a better one.

Only candidates above the threshold are looked at, in `Rounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import one_block
from tvmbuild.compiler.kernels.rounds import Rounds, count_places, list_memory
from tvmbuild.compiler.kernels.vectors import load, local

GEOMETRY = 6
"""The numbers that map boxes to a frame: left and top of the frame in the input, scales of x and y, width, height."""
COLUMNS = 6
"""The columns of a result: left, top, right, bottom, score and class."""
_TINY = 1e-9


def list_candidate_forms(count: int) -> list[Form]:
    """Return shape and dtype of the boxes, scores and classes of ``count`` candidates, the kernel's inputs."""
    return [((count, 4), "float32"), ((count,), "float32"), ((count,), "int32")]


def map_to_frame(geometry: Any, value: Any, axis: int) -> Any:
    """Return a coordinate of the input, x for axis 0 and y for axis 1, in the frame's pixels and inside of it."""
    found = (value - geometry[axis]) * geometry[2 + axis]
    return tirx.Max(tirx.Min(found, geometry[4 + axis]), float32(0))


@dataclass(frozen=True)
class More:
    """Values of a candidate after its scores: keypoints, which are results, or coefficients of its mask."""

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
    """True if a candidate that overlaps a better one is dropped."""
    agnostic: bool = False
    """True if only a better one of any class counts; else only one of the same class."""
    more: More | None = None

    @property
    def columns(self) -> int:
        """The number of columns of the results."""
        return COLUMNS + (self.more.count if self.more is not None and self.more.step else 0)

    def list_outputs(self) -> list[Form]:
        """Return the forms of the results, of the values for masks if there are any, and of the kernel's own memory.

        The first row of the results begins with their count; a row of a result has left, top, right, bottom, score and
        class, then keypoints. A mask needs a box in the input's pixels and coefficients.
        """
        masks: list[Form] = []
        if self.more is not None and not self.more.step:
            masks = [((self.most, 4), "float32"), ((self.most, self.more.count), "float32")]
        return [((1 + self.most, self.columns), "float32"), *masks, *list_memory(count_places(self.count))]


def write_selection(form: Selection, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function that selects results and maps their boxes to the frame.

    Its arguments are boxes, scores and classes of the candidates, the thresholds of scores and of overlaps, the
    geometry, and the output with more values of candidates. Its outputs are those of ``list_outputs``; results after
    the count are zeros.
    """
    inputs = [*list_candidate_forms(form.count), ((2,), "float32"), ((GEOMETRY,), "float32")]
    inputs += [] if form.more is None else [form.more.output]
    with begin_kernel("selection", inputs, form.list_outputs()) as (builder, arguments):
        if on_gpu:
            with one_block() as thread:
                _Body(form, arguments, thread).write()
        else:
            _Body(form, arguments, None).write()
    return mark_scheduled(builder.get())


class _Body:
    """The contest of the candidates. The threads of a GPU's block share them."""

    def __init__(self, form: Selection, arguments: Sequence[Any], thread: Any) -> None:
        self.form = form
        self.boxes, self.scores, self.classes, self.thresholds, self.geometry = arguments[:5]
        self.more = None if form.more is None else arguments[5]
        self.rows, *masks = arguments[-len(form.list_outputs()) : -2]
        self.inside: Any = masks[0] if masks else None
        self.kept: Any = masks[1] if masks else None
        self.rounds = Rounds(form.count, (arguments[-2], arguments[-1]), thread)
        self.overlap = local(1, "int32")

    def write(self) -> None:
        """Write the whole selection."""
        total = self.rounds.keep_likely(
            lambda candidate: (self.scores[candidate], self.scores[candidate] > self.thresholds[0])
        )
        self.rounds.each_own(self.form.most, lambda result: self.clear(result + 1))
        with T.If(self.rounds.first == int64(0)), T.Then():
            self.clear(int64(0))
        self.rounds.run(T.Bind(tirx.Min(total, int32(self.form.most)).astype("int64")), self)

    def finish(self, count: Any) -> None:
        """Write the number of results."""
        T.buffer_store(self.rows, count.astype("float32"), [0])

    def clear(self, row: Any) -> None:
        """Write zeros as a row of the results; row 0 has their count."""
        with T.serial(int64(self.form.columns)) as column:
            T.buffer_store(self.rows, float32(0), [row * self.form.columns + column])

    def emit(self, result: Any, winner: Any) -> None:
        """Write a candidate as a result, with its box in the frame's pixels."""
        begin = (result + 1) * self.form.columns
        for place in range(4):
            value = T.Bind(self.boxes[winner * 4 + place])
            T.buffer_store(self.rows, map_to_frame(self.geometry, value, place % 2), [begin + place])
            if self.inside is not None:
                T.buffer_store(self.inside, value, [result * 4 + place])
        T.buffer_store(self.rows, self.scores[winner], [begin + 4])
        T.buffer_store(self.rows, self.classes[winner].astype("float32"), [begin + 5])
        more = self.form.more
        if more is None:
            return
        for place in range(more.count):
            value = T.Bind(load(self.more, more.locate(winner, place)))
            if not more.step:
                T.buffer_store(self.kept, value, [result * more.count + place])
                continue
            axis = place % more.step
            found = map_to_frame(self.geometry, value, axis) if axis < 2 else value
            T.buffer_store(self.rows, found, [begin + COLUMNS + place])

    def rules_out(self, winner: Any, other: Any) -> Any:
        """Return whether only one of two candidates may be a result: of one class, they overlap too much."""
        if not self.form.suppress:
            return tirx.const(False)
        if self.form.agnostic:
            return self._overlaps(winner, other)
        T.buffer_store(self.overlap, int32(0), [0])
        with T.If(self.classes[winner] == self.classes[other]), T.Then():  # boxes are read only where they can matter
            T.buffer_store(self.overlap, self._overlaps(winner, other).astype("int32"), [0])
        return self.overlap[0] != int32(0)

    def _overlaps(self, one: Any, other: Any) -> Any:
        """Return whether two candidates share more than the allowed part of their union."""
        a, b = ([T.Bind(self.boxes[each * 4 + place]) for place in range(4)] for each in (one, other))
        across = tirx.Max(tirx.Min(a[2], b[2]) - tirx.Max(a[0], b[0]), float32(0))
        down = tirx.Max(tirx.Min(a[3], b[3]) - tirx.Max(a[1], b[1]), float32(0))
        shared = T.Bind(across * down)
        areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
        return shared > self.thresholds[1] * tirx.Max(areas - shared, float32(_TINY))
