"""The kernels that turn scores of classes into a map with a class for each pixel of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_chunk, each_row, each_thread
from tvmbuild.compiler.kernels.results.best import find_best, squash
from tvmbuild.compiler.kernels.results.visits import LANES
from tvmbuild.compiler.kernels.vectors import load, store, take
from tvmbuild.package.result_arrays import OUTSIDE


@dataclass(frozen=True)
class ClassMap:
    """Scores of classes at each pixel of an output, or one score, or the class itself."""

    classes: int
    """The number of scores of a pixel."""
    height: int
    width: int
    output: Form
    ready: bool = False
    """Whether the output has classes, and no scores."""
    channels_last: bool = False
    sigmoid: bool = False
    """Whether the sigmoid of a pixel's only score is its probability."""

    @property
    def pixels(self) -> int:
        """The number of pixels of the output."""
        return self.height * self.width

    def locate(self, kind: Any, pixel: Any) -> Any:
        """Return the place of a score in the output."""
        return pixel * self.classes + kind if self.channels_last else kind * self.pixels + pixel


def write_labels(form: ClassMap, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the output to the class with the highest score of each of its pixels [pixels], int32."""
    with begin_kernel("labels", [form.output], [((form.pixels,), "int32")]) as (builder, (data, labels)):
        if on_gpu:
            with each_thread(form.pixels) as pixel:
                _write_labels(form, (data, labels), pixel, 1)
        else:
            lanes = LANES if not form.channels_last and form.pixels >= LANES else 1
            with each_chunk(form.pixels, lanes) as pixel:
                _write_labels(form, (data, labels), pixel, lanes)
    return mark_scheduled(builder.get())


def _write_labels(form: ClassMap, buffers: Sequence[Any], pixel: Any, lanes: int) -> None:
    data, labels = buffers
    if form.ready:
        store(labels, take(data, pixel, lanes), pixel, lanes)
        return
    _, kind = find_best(lambda kind: load(data, form.locate(kind, pixel), lanes), form.classes, lanes)
    store(labels, kind, pixel, lanes)


@dataclass(frozen=True)
class DrawnMap:
    """A map of ``rows`` by ``columns`` pixels that is drawn from an output."""

    source: ClassMap
    rows: int
    columns: int
    nearest: bool

    def list_inputs(self) -> list[Form]:
        """Return the forms of output, labels if there are several scores, taps of rows and columns, and thresholds."""
        taps: list[Form] = []
        for size in (self.rows, self.columns):
            taps += [((size,), "int32"), ((size,), "float32")]
        labels: list[Form] = [] if self.by_threshold else [((self.source.pixels,), "int32")]
        return [self.source.output, *labels, *taps, ((2,), "float32")]

    @property
    def by_threshold(self) -> bool:
        """Whether a pixel's only score decides between the classes 0 and 1."""
        return self.source.classes == 1 and not self.source.ready


def write_map(form: DrawnMap, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function to the map [rows, columns], uint8, from the arguments that ``list_inputs`` describes.

    A pixel has the class with the highest interpolated score. Where the four pixels of the output around it agree on
    the class, that is their class, because interpolation keeps the order of scores; scores are read elsewhere alone.
    """
    output: Form = ((form.rows, form.columns), "uint8")
    with (
        begin_kernel("map", form.list_inputs(), [output]) as (builder, buffers),
        each_row(form.rows, form.columns, on_gpu=on_gpu) as (row, column),
    ):
        _Pixel(form, buffers, row, column).write()
    return mark_scheduled(builder.get())


class _Pixel:
    """A pixel of the map."""

    def __init__(self, form: DrawnMap, buffers: Sequence[Any], row: Any, column: Any) -> None:
        self.form, source = form, form.source
        self.data, self.map, self.thresholds = buffers[0], buffers[-1], buffers[-2]
        self.labels = None if form.by_threshold else buffers[1]
        rows, down, columns, across = buffers[-6:-2]
        self.place = row * form.columns + column
        self.top, self.left = T.Bind(rows[row]), T.Bind(columns[column])
        self.weights = (T.Bind(down[row]), T.Bind(across[column]))
        y, x = self.top.astype("int64"), self.left.astype("int64")
        below, right = tirx.Min(y + 1, int64(source.height - 1)), tirx.Min(x + 1, int64(source.width - 1))
        near = [(y, x)] if form.nearest else [(y, x), (y, right), (below, x), (below, right)]
        self.corners = [first * source.width + second for first, second in near]

    def write(self) -> None:
        """Write the class of the pixel."""
        with T.If(tirx.all(self.top >= int32(0), self.left >= int32(0))):
            with T.Then():
                self._write_inside()
            with T.Else():
                self._store(int32(OUTSIDE))

    def _write_inside(self) -> None:
        if self.labels is None:
            value = self._mix(int64(0))
            if self.form.source.sigmoid:
                value = squash(value, 1)
            self._store(tirx.Select(value > self.thresholds[0], int32(1), int32(0)))
            return
        first, *others = [T.Bind(self.labels[corner]) for corner in self.corners]
        if not others:
            self._store(first)
            return
        with T.If(tirx.all(*(first == other for other in others))):
            with T.Then():
                self._store(first)
            with T.Else():
                self._store(find_best(self._mix, self.form.source.classes, 1)[1])

    def _mix(self, kind: Any) -> Any:
        """Return the interpolated score of a class."""
        read = [T.Bind(load(self.data, self.form.source.locate(kind, corner))) for corner in self.corners]
        if len(read) == 1:
            return read[0]
        down, across = self.weights
        upper, lower = (T.Bind(a * (float32(1) - across) + b * across) for a, b in (read[:2], read[2:]))
        return upper * (float32(1) - down) + lower * down

    def _store(self, kind: Any) -> None:
        T.buffer_store(self.map, kind.astype("uint8"), [self.place])
