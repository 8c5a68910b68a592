"""The kernels that turn scores of classes into a map with a class for each pixel of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_chunk, each_row, each_thread
from tvmbuild.compiler.kernels.results.best import find_best, squash
from tvmbuild.compiler.kernels.results.canvas import Canvas
from tvmbuild.compiler.kernels.results.visits import LANES, each_reaching_vector
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store, take
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
    """True if the output has classes, and no scores."""
    channels_last: bool = False
    sigmoid: bool = False
    """True if the sigmoid of a pixel's only score is its probability."""

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
    canvas: Canvas
    nearest: bool

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.canvas.rows.size

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.canvas.columns.size

    def list_inputs(self) -> list[Form]:
        """Return the forms of output, labels if there are several scores, `list_taps`, and thresholds."""
        labels: list[Form] = [] if self.by_threshold else [((self.source.pixels,), "int32")]
        taps: list[Form] = [(each.shape, str(each.dtype)) for each in self.list_taps()]
        return [self.source.output, *labels, *taps, ((2,), "float32")]

    def list_taps(self) -> list[np.ndarray]:
        """Return the taps of rows and columns, and the first column of each run with the same tap."""
        rows, columns, width = self.canvas.rows, self.canvas.columns, self.source.width
        taps = [*rows.list_taps(self.source.height, nearest=self.nearest)]
        return [*taps, *columns.list_run_taps(width, LANES, nearest=self.nearest)]

    @property
    def by_threshold(self) -> bool:
        """Return whether a pixel's only score decides between the classes 0 and 1."""
        return self.source.classes == 1 and not self.source.ready


def write_map(form: DrawnMap, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function to the map [rows, columns], uint8, from the arguments that ``list_inputs`` describes.

    A pixel has the class with the highest interpolated score. Where the four pixels of the output around it agree on
    the class, that is their class, because interpolation keeps the order of scores; scores are read only elsewhere.
    """
    output: Form = ((form.rows, form.columns), "uint8")
    with begin_kernel("map", form.list_inputs(), [output]) as (builder, buffers):
        if on_gpu:
            with each_row(form.rows, form.columns, on_gpu=True) as (row, column):
                _Pixel(form, buffers, row, column).write()
        else:
            with T.parallel(int64(form.rows)) as row:
                _Row(form, buffers, row).write()
    return mark_scheduled(builder.get())


class _Row:
    """A row of the map on a CPU, run by run: the pixels of a run lie between the same two columns of the output."""

    def __init__(self, form: DrawnMap, buffers: Sequence[Any], row: Any) -> None:
        self.form, self.row = form, row
        self.data, self.map, self.thresholds = buffers[0], buffers[-1], buffers[-2]
        self.labels = None if form.by_threshold else buffers[1]
        rows, down, _, self.across, self.runs = buffers[-7:-2]
        self.top, self.down = T.Bind(rows[row]), T.Bind(down[row])

    def write(self) -> None:
        """Write the classes of the row's pixels."""
        with T.serial(int64(self.form.columns)) as column:
            T.buffer_store(self.map, tirx.const(OUTSIDE, "uint8"), [self.row * self.form.columns + column])
        with T.If(self.top >= int32(0)), T.Then():
            source = self.form.source
            y = T.Bind(self.top.astype("int64"))
            below = T.Bind(tirx.Min(y + 1, int64(source.height - 1)))
            least = T.Bind(self._find_least()) if self.labels is None else None
            with T.serial(int64(source.width)) as x:
                right = T.Bind(tirx.Min(x + 1, int64(source.width - 1)))
                near = [(y, x)] if self.form.nearest else [(y, x), (below, x), (y, right), (below, right)]
                self._write_run(x, [T.Bind(first * source.width + second) for first, second in near], least)

    def _find_least(self) -> Any:
        """Return the value that a pixel's only score must exceed: that whose sigmoid is the threshold, if need be."""
        least = self.thresholds[0]
        if not self.form.source.sigmoid:
            return least
        share = tirx.Max(tirx.Min(least, float32(1)), float32(0))
        return tirx.log(share / (float32(1) - share))

    def _write_run(self, x: Any, corners: Sequence[Any], least: Any) -> None:
        begin, end = (T.Bind(self.runs[x + place].astype("int64")) for place in range(2))
        if self.labels is None:
            with each_reaching_vector(begin, end) as at:
                better = self._mix(int64(0), corners, at) > spread(least, LANES)
                self._store(at, end, tirx.Select(better, spread(int32(1), LANES), spread(int32(0), LANES)))
            return
        first, *others = [T.Bind(self.labels[corner]) for corner in corners]
        if not others:
            self._fill(begin, end, first)
            return
        with T.If(tirx.all(*(first == other for other in others))):
            with T.Then():
                self._fill(begin, end, first)
            with T.Else(), each_reaching_vector(begin, end) as at:
                _, kind = find_best(lambda kind: self._mix(kind, corners, at), self.form.source.classes, LANES)
                self._store(at, end, kind)

    def _fill(self, begin: Any, end: Any, kind: Any) -> None:
        with each_reaching_vector(begin, end) as at:
            self._store(at, end, spread(kind, LANES))

    def _mix(self, kind: Any, corners: Sequence[Any], at: Any) -> Any:
        """Return the interpolated scores of a class."""
        read = [T.Bind(load(self.data, self.form.source.locate(kind, corner))) for corner in corners]
        if len(read) == 1:
            return spread(read[0], LANES)
        down, across = self.down, load(self.across, at, LANES)
        left, right = (T.Bind(a * (float32(1) - down) + b * down) for a, b in (read[:2], read[2:]))
        return spread(left, LANES) * (number(1, LANES) - across) + spread(right, LANES) * across

    def _store(self, at: Any, end: Any, kinds: Any) -> None:
        """Store the classes of a vector. Runs are written from left to right, so the next run corrects its pixels."""
        begin = self.row * self.form.columns
        with T.If(at + LANES <= int64(self.form.canvas.columns.find_seen().stop)):
            with T.Then():
                store(self.map, kinds, begin + at, LANES)
            with T.Else():
                last = local(LANES, "int32")
                store(last, kinds, int64(0), LANES)
                with T.serial(tirx.Min(end - at, int64(LANES))) as lane:
                    T.buffer_store(self.map, last[lane].astype("uint8"), [begin + at + lane])


class _Pixel:
    """A pixel of the map on a GPU."""

    def __init__(self, form: DrawnMap, buffers: Sequence[Any], row: Any, column: Any) -> None:
        self.form, source = form, form.source
        self.data, self.map, self.thresholds = buffers[0], buffers[-1], buffers[-2]
        self.labels = None if form.by_threshold else buffers[1]
        rows, down, columns, across = buffers[-7:-3]
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
