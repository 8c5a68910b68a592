"""The kernels that draw a mask for each object: prototypes times coefficients, cut by the object's box."""

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
from tvmbuild.compiler.kernels.results.canvas import Canvas
from tvmbuild.compiler.kernels.results.visits import LANES, each_reaching_vector
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store, take

_SUMS = 4
"""The vectors of sums that are computed at once, because each addition waits for the one before."""


@dataclass(frozen=True)
class Prototypes:
    """The prototypes of masks [1, ``count``, ``height``, ``width``] in an output."""

    count: int
    height: int
    width: int
    output: Form

    @property
    def pixels(self) -> int:
        """The number of pixels of a prototype."""
        return self.height * self.width

    def list_taps(self, canvas: Canvas) -> list[np.ndarray]:
        """Return centres, taps and weights of the rows and then of the columns of a canvas, and the columns' runs."""
        rows, columns = canvas.rows, canvas.columns
        taps = [rows.list_centres(), *rows.list_taps(self.height)]
        return [*taps, columns.list_centres(), *columns.list_run_taps(self.width, LANES)]


def write_mask_values(form: Prototypes, results: Form, most: int, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from results, coefficients [most, count] and prototypes to masks [most, pixels], float32.

    The values of masks after the number of results are not written.
    """
    inputs = [results, ((most, form.count), "float32"), form.output]
    with begin_kernel("mask_values", inputs, [((most, form.pixels), "float32")]) as (builder, buffers):
        rows = buffers[0]
        if on_gpu:
            with each_thread(most * form.pixels) as place:
                result = T.Bind(place // form.pixels)
                with T.If(result < rows[0].astype("int64")), T.Then():
                    _write_values(form, buffers, (result, place % form.pixels), 1)
        else:
            lanes = next((each for each in (_SUMS * LANES, LANES) if form.pixels >= each), 1)
            count = rows[0].astype("int64")
            with each_chunk(form.pixels, lanes) as pixel, T.serial(T.Bind(count)) as result:
                _write_values(form, buffers, (result, pixel), lanes)
    return mark_scheduled(builder.get())


def _write_values(form: Prototypes, buffers: Sequence[Any], at: tuple[Any, Any], lanes: int) -> None:
    _, kept, prototypes, values = buffers
    result, pixel = at
    total = local(lanes)
    store(total, number(0, lanes), int64(0), lanes)
    with T.serial(int64(form.count)) as index:
        factor = spread(kept[result * form.count + index], lanes)
        product = load(prototypes, index * form.pixels + pixel, lanes) * factor
        store(total, load(total, int64(0), lanes) + product, int64(0), lanes)
    store(values, load(total, int64(0), lanes), result * form.pixels + pixel, lanes)


def write_instances(form: Prototypes, results: Form, canvas: Canvas, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function to the map [height, width], uint8, with the number of the object at each pixel, from 1 on.

    Its arguments are the results, their boxes [most, 4] in the input's pixels, the values of their masks, and
    `Prototypes.list_taps`. A pixel belongs to the object with the highest score among those whose box contains its
    centre and whose interpolated mask is positive there; 0 means none.
    """
    most = results[0][0] - 1
    inputs = [results, ((most, 4), "float32"), ((most, form.pixels), "float32")]
    inputs += [(each.shape, str(each.dtype)) for each in form.list_taps(canvas)]
    output: Form = (canvas.shape, "uint8")
    with begin_kernel("instances", inputs, [output]) as (builder, buffers):
        painter = _Painter(form, canvas, buffers)
        if on_gpu:
            with each_row(*canvas.shape, on_gpu=True) as (row, column):
                painter.write_pixel(row, column)
        else:
            with T.parallel(int64(canvas.rows.size)) as row:
                painter.write_row(row)
    return mark_scheduled(builder.get())


class _Painter:
    """The body of the kernel."""

    def __init__(self, form: Prototypes, canvas: Canvas, buffers: Sequence[Any]) -> None:
        self.form, self.canvas = form, canvas
        self.results, self.boxes, self.values = buffers[:3]
        self.rows, self.columns, self.runs, self.map = buffers[3:6], buffers[6:9], buffers[9], buffers[10]

    def write_pixel(self, row: Any, column: Any) -> None:
        """Write a pixel: look for the first object that covers it."""
        found = local(1, "int32")
        T.buffer_store(found, int32(0), [0])
        y, x = T.Bind(self.rows[0][row]), T.Bind(self.columns[0][column])
        with T.serial(T.Bind(self.results[0].astype("int64"))) as result:
            left, top, right, bottom = (self.boxes[result * 4 + side] for side in range(4))
            inside = tirx.all(left <= x, x < right, top <= y, y < bottom)
            with T.If(tirx.all(found[0] == int32(0), inside)), T.Then():
                covers = self._interpolate(result, row, column) > float32(0)
                T.buffer_store(found, tirx.Select(covers, (result + 1).astype("int32"), int32(0)), [0])
        inside = tirx.all(self.rows[1][row] >= int32(0), self.columns[1][column] >= int32(0))
        self._store(row, column, tirx.Select(inside, found[0], int32(0)))

    def write_row(self, row: Any) -> None:
        """Write a row: draw the objects from the last to the first, so that the best stays."""
        with T.serial(int64(self.canvas.columns.size)) as column:
            self._store(row, column, int32(0))
        y = T.Bind(self.rows[0][row])
        count = T.Bind(self.results[0].astype("int64"))
        with T.If(self.rows[1][row] >= int32(0)), T.Then(), T.serial(count) as step:
            result = T.Bind(count - 1 - step)
            with T.If(tirx.all(self.boxes[result * 4 + 1] <= y, y < self.boxes[result * 4 + 3])), T.Then():
                begin, end = (T.Bind(self._find_column(self.boxes[result * 4 + side])) for side in (0, 2))
                with T.If(begin < end), T.Then():
                    first, last = (T.Bind(self.columns[1][at].astype("int64")) for at in (begin, end - 1))
                    with T.serial(last - first + 1) as step_right:
                        self._write_run(row, result, T.Bind(first + step_right), (begin, end))

    def _write_run(self, row: Any, result: Any, x: Any, span: tuple[Any, Any]) -> None:
        """Write the pixels of an object in a row that lie between two columns of its mask, and inside of a span."""
        form, down = self.form, self.rows[2][row]
        y, right = T.Bind(self.rows[1][row].astype("int64")), T.Bind(tirx.Min(x + 1, int64(form.width - 1)))
        below, begin = T.Bind(tirx.Min(y + 1, int64(form.height - 1))), result * form.pixels
        left_value, right_value = (
            T.Bind(
                self.values[begin + y * form.width + column] * (float32(1) - down)
                + self.values[begin + below * form.width + column] * down
            )
            for column in (x, right)
        )
        run_begin = T.Bind(tirx.Max(self.runs[x].astype("int64"), span[0]))
        run_end = T.Bind(tirx.Min(self.runs[x + 1].astype("int64"), span[1]))
        # Most cells of a mask lie inside or outside of the object.
        matters = tirx.any(left_value > float32(0), right_value > float32(0))
        with T.If(matters), T.Then(), each_reaching_vector(run_begin, run_end) as at:
            across = load(self.columns[2], at, LANES)
            mixed = spread(left_value, LANES) * (number(1, LANES) - across) + spread(right_value, LANES) * across
            self._store_positive((row, at, run_end), mixed, (result + 1).astype("int32"))

    def _store_positive(self, place: tuple[Any, Any, Any], values: Any, number_: Any) -> None:
        """Store an object's number where its values are positive; ``place`` is row, first column, and the run's end."""
        row, at, end = place
        begin = T.Bind(row * self.canvas.columns.size + at)
        with T.If(at + LANES <= int64(self.canvas.columns.size)):
            with T.Then():
                old = take(self.map, begin, LANES).astype(f"int32x{LANES}")
                numbers = tirx.Ramp(at.astype("int32"), int32(1), LANES)
                inside = tirx.Select(numbers < spread(end.astype("int32"), LANES), spread(number_, LANES), old)
                store(self.map, tirx.Select(values > number(0, LANES), inside, old), begin, LANES)
            with T.Else():
                last = local(LANES)
                store(last, values, int64(0), LANES)
                with T.serial(tirx.Min(end - at, int64(LANES))) as lane, T.If(last[lane] > float32(0)), T.Then():
                    T.buffer_store(self.map, number_.astype("uint8"), [begin + lane])

    def _find_column(self, x: Any) -> Any:
        """Return the first column that the network sees whose centre is not left of a place in the input."""
        side = self.canvas.columns
        seen = side.find_seen()
        column = tirx.ceil((x - float32(side.offset)) / float32(side.scale) - float32(0.5))
        return tirx.Max(tirx.Min(column, float32(seen.stop)), float32(seen.start)).astype("int64")

    def _interpolate(self, result: Any, row: Any, column: Any) -> Any:
        """Return the value of an object's mask at a pixel of the map."""
        form = self.form
        y, x = (taps[1][at].astype("int64") for taps, at in ((self.rows, row), (self.columns, column)))
        y, x = T.Bind(tirx.Max(y, int64(0))), T.Bind(tirx.Max(x, int64(0)))
        down, across = self.rows[2][row], self.columns[2][column]
        below, right = tirx.Min(y + 1, int64(form.height - 1)), tirx.Min(x + 1, int64(form.width - 1))
        begin = result * form.pixels
        upper, lower = (
            T.Bind(
                self.values[begin + line * form.width + x] * (float32(1) - across)
                + self.values[begin + line * form.width + right] * across
            )
            for line in (y, below)
        )
        return upper * (float32(1) - down) + lower * down

    def _store(self, row: Any, column: Any, value: Any) -> None:
        T.buffer_store(self.map, value.astype("uint8"), [row * self.canvas.columns.size + column])
