"""The two kernels that make a network's input of a frame: along the rows, then along the columns.

The first one also converts colours. The second one also scales values and writes the input's layout. With the
interpolation ``antialias``, the input has the bits that `package.preprocess` computes with Pillow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.base.frame_specs import Frame
from tvmbuild.base.specs import Preprocess
from tvmbuild.compiler.ir.expressions import int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.frames.pixels import is_packed, make_reader
from tvmbuild.compiler.kernels.frames.taps import PILLOW_BITS, Taps, find_taps
from tvmbuild.compiler.kernels.loops import each_row
from tvmbuild.package.preprocess import PADDING, Fit, make_table


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
        """The shape and dtype of the frame after the first kernel."""
        dtype = "int32" if self.frame.interpolation == "bilinear" else "uint8"
        return (len(self.rows), len(self.along.first), self.channels), dtype

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
        if np.dtype(self.dtype).kind in "iu":
            table = np.rint(table)
        first = [self.rows, self.along.first, self.along.weights]
        return first, [self.down.first, self.down.weights, table.astype(self.dtype)]


def describe_preparation(
    frame: Frame, rules: Preprocess, fit: Fit, size: tuple[int, int], tensor: tuple[tuple[int, ...], str]
) -> Preparation:
    """Return the preparation of a frame for an input of ``size``, height and width, and its shape and dtype."""
    (height, width), (shape, dtype) = size, tensor
    columns = find_taps(frame.interpolation, frame.width, fit.width)
    lines = find_taps(frame.interpolation, frame.height, fit.height)
    along = columns.cut(max(0, -fit.left), min(fit.width, width - fit.left))
    down = lines.cut(max(0, -fit.top), min(fit.height, height - fit.top))
    rows = down.list_sources().astype(np.int32)
    return Preparation(frame, rules, fit, height, width, shape, dtype, along, down.renumber(rows), rows)


def write_along(form: Preparation, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the frame's bytes to its rows in the input's width.

    Its arguments are the bytes, the rows, first taps and weights; its output has the form ``between``.
    """
    constants, _ = form.list_constants()
    shape, dtype = form.between
    inputs = [(form.frame.shape, "uint8"), *((each.shape, str(each.dtype)) for each in constants)]
    name = "frame_rows"
    with begin_kernel(name, inputs, [(shape, dtype)]) as (builder, (data, rows, first, weights, out)):
        read = make_reader(form.frame, data, form.rules.color)
        rgb = not on_gpu and not is_packed(form.frame.encoding)
        count, columns, channels = shape
        taps = form.along.count

        def write(row: Any, source: Any, column: Any) -> None:
            start = T.Bind(first[column].astype("int64"))
            sums = [int32(_half(form))] * channels
            for tap in range(taps):
                pixel = source(start + tap)
                weight = weights[column * taps + tap]
                sums = [total + value * weight for total, value in zip(sums, pixel, strict=True)]
            for channel, total in enumerate(sums):
                place = (row * columns + column) * channels + channel
                T.buffer_store(out, _shift(form, total).astype(dtype), [place])

        if rgb:
            width = form.frame.width
            with T.parallel(int64(count)) as row:
                line = T.alloc_buffer([width * channels], "uint8", layout=None)
                origin = T.Bind(rows[row].astype("int64"))
                with T.serial(int64(width)) as column:
                    for channel, value in enumerate(read(origin, column)):
                        T.buffer_store(line, value.astype("uint8"), [column * channels + channel])
                with T.serial(int64(columns)) as column:
                    write(
                        row,
                        lambda at: [line[at * channels + channel].astype("int32") for channel in range(channels)],
                        column,
                    )
        else:
            with each_row(count, columns, on_gpu=on_gpu) as (row, column):
                origin = T.Bind(rows[row].astype("int64"))
                write(row, lambda at: read(origin, at), column)
    return mark_scheduled(builder.get())


def write_down(form: Preparation, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from rows in the input's width to the input.

    Its arguments are the rows, first taps, weights and the table byte → value for each channel.
    """
    _, constants = form.list_constants()
    inputs = [form.between, *((each.shape, str(each.dtype)) for each in constants)]
    with begin_kernel("frame_columns", inputs, [(form.shape, form.dtype)]) as (builder, arguments):
        data, first, weights, table, out = arguments
        _, columns, channels = form.between[0]

        def place_of(row: Any, column: Any, channel: int) -> Any:
            if form.rules.layout == "NCHW":
                return (row + channel * form.height) * form.width + column
            return (row * form.width + column) * channels + channel

        def write_pixel(row: Any, column: Any) -> None:
            line, x = row - form.top, column - form.left
            start = T.Bind(first[line].astype("int64"))
            for channel in range(channels):
                terms = [
                    (
                        data[((start + tap) * columns + x) * channels + channel].astype("int32"),
                        weights[line * form.down.count + tap],
                    )
                    for tap in range(form.down.count)
                ]
                value = table[_blend(form, terms).astype("int64") + channel * 256]
                T.buffer_store(out, value, [place_of(row, column, channel)])

        def write_fill(row: Any, column: Any) -> None:
            for channel in range(channels):
                T.buffer_store(out, table[int64(channel * 256 + PADDING)], [place_of(row, column, channel)])

        bottom, right = form.top + len(form.down.first), form.left + columns
        visible_rows = (form.top, bottom) != (0, form.height)
        visible_columns = (form.left, right) != (0, form.width)
        with each_row(form.height, form.width, on_gpu=on_gpu) as (row, column):
            inside = []
            if visible_rows:
                inside += [row >= int64(form.top), row < int64(bottom)]
            if visible_columns:
                inside += [column >= int64(form.left), column < int64(right)]
            if not inside:
                write_pixel(row, column)
            else:
                with T.If(tirx.all(*inside)):
                    with T.Then():
                        write_pixel(row, column)
                    with T.Else():
                        write_fill(row, column)
    return mark_scheduled(builder.get())


def _half(form: Preparation) -> int:
    """Return what is added to a sum of the first kernel so that its shift rounds to the nearest."""
    return 1 << (PILLOW_BITS - 1) if form.frame.interpolation == "antialias" else 0


def _shift(form: Preparation, total: Any) -> Any:
    return total >> int32(PILLOW_BITS) if form.frame.interpolation == "antialias" else total


def _blend(form: Preparation, terms: list[tuple[Any, Any]]) -> Any:
    """Return the byte of a pixel from its taps (value, weight) along a column."""
    if form.frame.interpolation == "bilinear":  # OpenCV's VResizeLinear for bytes
        total = int32(2)
        for value, weight in terms:
            total = total + ((weight * (value >> int32(4))) >> int32(16))
        return total >> int32(2)
    total = int32(_half(form))
    for value, weight in terms:
        total = total + value * weight
    return _shift(form, total)
