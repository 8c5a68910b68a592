"""The two kernels that make a network's input of a frame: along the rows, then along the columns.

The first one also converts colours. The second one also scales values and writes the input's layout. With the
interpolation ``antialias``, the input has the bits that `package.preprocess` computes with Pillow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.compiler.ir.expressions import int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.frames.pixels import is_packed, make_reader
from tvmbuild.compiler.kernels.frames.taps import AREA_BITS, OPENCV_BITS, PILLOW_BITS, Taps, Way, find_rows, find_taps
from tvmbuild.compiler.kernels.loops import each_row, each_vector
from tvmbuild.compiler.kernels.vectors import local, number, spread, store, take, vector_type
from tvmbuild.package.preprocess import Fit, make_table

_FRACTION = 7
"""The fraction bits of a value between the two kernels of ``bilinear`` and ``area``."""
_UNROLLED = 16
"""The largest number of taps whose code is written without a loop. Long code compiles slowly."""
_LANES = 16
"""The pixels of a vector: two vectors of float64 in AVX-512."""


@dataclass(frozen=True)
class Preparation:
    """The conversion of a frame into an input [height, width, channels], in any layout."""

    frame: Frame
    rules: Preprocess
    fit: Fit
    height: int
    width: int
    shape: tuple[int, ...]
    """The input's shape in the network."""
    dtype: str
    along: Taps
    """The taps of the visible columns."""
    down: Taps
    """The taps of the visible rows; their sources are the rows of ``rows``."""
    rows: np.ndarray
    """int32: the rows of the frame that the result depends on."""

    @property
    def channels(self) -> int:
        """The number of channels of the input."""
        return 1 if self.rules.color == "gray" else 3

    @property
    def between(self) -> tuple[tuple[int, ...], str]:
        """The shape and dtype of the frame after the first kernel: rows, channels, columns.

        With ``bilinear`` and ``area``, a value is a byte with the seven fraction bits that OpenCV keeps for its second
        sum of ``bilinear``.
        """
        dtype = "uint16" if self.frame.interpolation in ("bilinear", "area") else "uint8"
        return (len(self.rows), self.channels, len(self.along.first)), dtype

    @property
    def by_table(self) -> bool:
        """Return whether the second kernel looks values up: integers, whose rounding is not worth vectors."""
        return np.dtype(self.dtype).kind in "iu"

    @property
    def top(self) -> int:
        """The first visible row of the input."""
        return max(0, self.fit.top)

    @property
    def left(self) -> int:
        """The first visible column of the input."""
        return max(0, self.fit.left)

    def list_constants(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the arrays that the first and the second kernel take beside the pixels."""
        table = np.stack([make_table(self.rules, channel) for channel in range(self.channels)])
        if self.by_table:
            table = np.rint(table)
        first = [self.rows, self.along.first, self.along.weights]
        return first, [self.down.first, self.down.weights, table.astype(self.dtype)]


def describe_preparation(
    frame: Frame, rules: Preprocess, fit: Fit, size: tuple[int, int], tensor: tuple[tuple[int, ...], str]
) -> Preparation:
    """Return the preparation of a frame for an input of ``size``, height and width, and its shape and dtype."""
    (height, width), (shape, dtype) = size, tensor
    part, way = frame.used, cast("Way", frame.interpolation)
    if way == "area" and (fit.width > part.width or fit.height > part.height):
        way = "area_growing"
    columns = find_taps(way, part.width, fit.width)
    lines, sources = find_rows(way, part.height, fit.height)
    along = columns.cut(max(0, -fit.left), min(fit.width, width - fit.left))
    down = lines.cut(max(0, -fit.top), min(fit.height, height - fit.top))
    used = down.list_sources()
    along = Taps(along.first + np.int32(part.left), along.weights)
    rows = sources[used] + np.int32(part.top)
    return Preparation(frame, rules, fit, height, width, shape, dtype, along, down.renumber(used), rows)


def write_along(form: Preparation, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the frame's bytes to its rows in the input's width.

    Its arguments are the bytes, the rows, first taps and weights; its output has the form ``between``.
    """
    constants, _ = form.list_constants()
    inputs = [(form.frame.shape, "uint8"), *((each.shape, str(each.dtype)) for each in constants)]
    with begin_kernel("frame_rows", inputs, [form.between]) as (builder, arguments):
        kernel = _Along(form, arguments)
        if kernel.converts_twice and not on_gpu:
            with T.parallel(int64(kernel.count)) as row:
                kernel.write_by_line(row)
        else:
            with each_row(kernel.count, kernel.columns, on_gpu=on_gpu) as (row, column):
                kernel.write_at_once(row, column)
    return mark_scheduled(builder.get())


class _Along:
    """The parts of the first kernel."""

    def __init__(self, form: Preparation, arguments: list[Any]) -> None:
        self.form = form
        data, self.rows, self.first, self.weights, self.out = arguments
        self.read = make_reader(form.frame, data, form.rules.color)
        (self.count, self.channels, self.columns), self.dtype = form.between
        self.taps = form.along.count

    @property
    def converts_twice(self) -> bool:
        """Return whether several taps would convert the colours of a pixel again and again."""
        frame = self.form.frame
        return not is_packed(frame.encoding) and self.columns * self.taps >= frame.used.width

    def write_at_once(self, row: Any, column: Any) -> None:
        """Write a pixel from the frame's bytes."""
        origin = T.Bind(self.rows[row].astype("int64"))
        self._write(row, column, lambda at: self.read(origin, at))

    def write_by_line(self, row: Any) -> None:
        """Write a row: convert its colours first."""
        part, channels = self.form.frame.used, self.channels
        line = T.alloc_buffer([part.width * channels], "uint8", layout=None)
        origin = T.Bind(self.rows[row].astype("int64"))
        with T.serial(int64(part.width)) as column:
            for channel, value in enumerate(self.read(origin, column + part.left)):
                T.buffer_store(line, value.astype("uint8"), [column * channels + channel])

        def read(at: Any) -> list[Any]:
            return [line[(at - part.left) * channels + channel].astype("int32") for channel in range(channels)]

        with T.serial(int64(self.columns)) as column:
            self._write(row, column, read)

    def _write(self, row: Any, column: Any, read: Callable[[Any], Sequence[Any]]) -> None:
        start = T.Bind(self.first[column].astype("int64"))

        def weigh(tap: Any, sums: Sequence[Any]) -> list[Any]:
            weight = self.weights[column * self.taps + tap]
            return [total + value * weight for total, value in zip(sums, read(start + tap), strict=True)]

        sums = _add_up(weigh, [int32(_half(self.form))] * self.channels, self.taps)
        for channel, total in enumerate(sums):
            place = (row * self.channels + channel) * self.columns + column
            T.buffer_store(self.out, _shift(self.form, total).astype(self.dtype), [place])


def _add_up(weigh: Callable[[Any, Sequence[Any]], list[Any]], sums: list[Any], taps: int) -> list[Any]:
    """Return the sums after all taps; ``weigh`` adds one of them."""
    if taps <= _UNROLLED:
        for tap in range(taps):
            sums = weigh(tap, sums)
        return sums
    kept = local(len(sums), "int32")
    for place, total in enumerate(sums):
        T.buffer_store(kept, total, [place])
    with T.serial(int64(taps)) as tap:
        found = [T.Bind(total) for total in weigh(tap, [kept[place] for place in range(len(sums))])]
        for place, total in enumerate(found):
            T.buffer_store(kept, total, [place])
    return [kept[place] for place in range(len(sums))]


def write_down(form: Preparation, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from rows in the input's width to the input.

    Its arguments are the rows, first taps, weights and the table byte → value for each channel.
    """
    _, constants = form.list_constants()
    inputs = [form.between, *((each.shape, str(each.dtype)) for each in constants)]
    with begin_kernel("frame_columns", inputs, [(form.shape, form.dtype)]) as (builder, arguments):
        kernel = _Down(form, arguments, by_table=on_gpu or form.by_table)
        if on_gpu:
            with each_row(form.height, form.width, on_gpu=True) as pixel, T.If(kernel.is_visible(*pixel)):
                with T.Then():
                    for channel in range(form.channels):
                        kernel.write(pixel, channel, 1)
                with T.Else():
                    for channel in range(form.channels):
                        kernel.fill(pixel, channel, 1)
        else:
            with T.parallel(int64(form.height)) as row, T.If(kernel.is_visible_row(row)):
                with T.Then():
                    for channel in range(form.channels):
                        kernel.write_row(row, channel)
                with T.Else():
                    for channel in range(form.channels):
                        kernel.fill_row(row, channel)
    return mark_scheduled(builder.get())


class _Down:
    """The writer of the second kernel, along the columns; it computes ``lanes`` neighbouring columns at once."""

    def __init__(self, form: Preparation, arguments: list[Any], *, by_table: bool) -> None:
        self.form, self.by_table = form, by_table
        self.data, self.first, self.weights, self.table, self.out = arguments
        self.columns = form.between[0][2]
        self.bottom, self.right = form.top + len(form.down.first), form.left + self.columns
        self.lanes = 1 if by_table or form.rules.layout == "NHWC" else _LANES

    def is_visible_row(self, row: Any) -> Any:
        """Return whether the frame covers a row of the input."""
        return tirx.all(row >= int64(self.form.top), row < int64(self.bottom))

    def is_visible(self, row: Any, column: Any) -> Any:
        """Return whether the frame covers a pixel of the input."""
        inside = tirx.all(column >= int64(self.form.left), column < int64(self.right))
        return tirx.all(self.is_visible_row(row), inside)

    def write_row(self, row: Any, channel: int) -> None:
        """Write a channel of a row that the frame covers, with its borders."""
        form = self.form
        each_vector((0, form.left), self.lanes, lambda x, lanes: self.fill((row, x), channel, lanes))
        each_vector((form.left, self.right), self.lanes, lambda x, lanes: self.write((row, x), channel, lanes))
        each_vector((self.right, form.width), self.lanes, lambda x, lanes: self.fill((row, x), channel, lanes))

    def fill_row(self, row: Any, channel: int) -> None:
        """Write a channel of a row outside of the frame."""
        each_vector((0, self.form.width), self.lanes, lambda x, lanes: self.fill((row, x), channel, lanes))

    def write(self, pixel: tuple[Any, Any], channel: int, lanes: int) -> None:
        """Write a channel of pixels that the frame covers."""
        form, (row, column) = self.form, pixel
        line = row - form.top
        start = T.Bind(self.first[line].astype("int64"))
        terms = []
        for tap in range(form.down.count):
            place = ((start + tap) * form.channels + channel) * self.columns + (column - form.left)
            value = take(self.data, place, lanes).astype(vector_type("int32", lanes))
            terms.append((value, spread(self.weights[line * form.down.count + tap], lanes)))
        self._store(pixel, channel, self._convert(_blend(form, terms, lanes), channel, lanes), lanes)

    def fill(self, pixel: tuple[Any, Any], channel: int, lanes: int) -> None:
        """Write a channel of pixels outside of the frame."""
        self._store(pixel, channel, spread(self.table[int64(channel * 256 + self.form.rules.fill)], lanes), lanes)

    def _convert(self, byte: Any, channel: int, lanes: int) -> Any:
        """Return the input's value for a byte, rounded after each operation as the table is."""
        if self.by_table:
            return self.table[byte.astype("int64") + channel * 256]
        rules = self.form.rules
        scaled = byte.astype(vector_type("float64", lanes)) * spread(tirx.FloatImm("float64", rules.scale), lanes)
        value = scaled.astype(vector_type("float32", lanes))
        if rules.mean:
            value = value - number(rules.mean[channel], lanes)
        if rules.std:
            value = value / number(rules.std[channel], lanes)
        return value

    def _store(self, pixel: tuple[Any, Any], channel: int, value: Any, lanes: int) -> None:
        form, (row, column) = self.form, pixel
        place = (row + channel * form.height) * form.width + column
        if form.rules.layout == "NHWC":
            place = (row * form.width + column) * form.channels + channel
        store(self.out, value, place, lanes)


def _half(form: Preparation) -> int:
    """Return the number that makes the shift of the first sum round to the nearest."""
    return {"antialias": 1 << (PILLOW_BITS - 1), "area": 1 << (AREA_BITS - _FRACTION - 1)}.get(
        form.frame.interpolation, 0
    )


def _shift(form: Preparation, total: Any) -> Any:
    """Return a sum of the first kernel in the form of its output."""
    bits = {"antialias": PILLOW_BITS, "bilinear": OPENCV_BITS - _FRACTION, "area": AREA_BITS - _FRACTION}
    shift = bits.get(form.frame.interpolation, 0)
    return total >> int32(shift) if shift else total


def _blend(form: Preparation, terms: list[tuple[Any, Any]], lanes: int) -> Any:
    """Return the bytes of pixels from their taps (value, weight) along a column."""

    def integer(value: int) -> Any:
        return spread(int32(value), lanes)

    if form.frame.interpolation == "bilinear":  # OpenCV's VResizeLinear for bytes
        total = integer(2)
        for value, weight in terms:
            total = total + ((weight * value) >> integer(16))
        return total >> integer(2)
    bits = {"antialias": PILLOW_BITS, "area": AREA_BITS + _FRACTION}.get(form.frame.interpolation, 0)
    total = integer(1 << (bits - 1) if bits else 0)
    for value, weight in terms:
        total = total + value * weight
    return total >> integer(bits) if bits else total
