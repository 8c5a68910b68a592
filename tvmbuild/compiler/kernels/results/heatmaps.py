"""The kernel that turns the peaks of heatmaps into points of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.ir.expressions import float32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_row
from tvmbuild.compiler.kernels.results.select import GEOMETRY, map_to_frame
from tvmbuild.compiler.kernels.vectors import load

COLUMNS = 3
"""The columns of a point: x, y and score."""
_SHIFT = 0.25
"""The shift of a peak towards its higher neighbour, in pixels, as in HRNet's decoder."""


@dataclass(frozen=True)
class PointMaps:
    """Heatmaps [1, points, height, width] for an input of this size."""

    points: int
    height: int
    width: int
    output: Form
    input_size: tuple[int, int]
    """Height and width of the network's input, in pixels."""


def write_points(form: PointMaps, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from heatmaps, scores [points], places [points] and geometry to points [1 + points, 3].

    The first row begins with the number of points; a row has x and y in the frame's pixels, and the score.
    """
    inputs = [form.output, ((form.points,), "float32"), ((form.points,), "int32"), ((GEOMETRY,), "float32")]
    with begin_kernel("points", inputs, [((1 + form.points, COLUMNS), "float32")]) as (builder, buffers):
        maps, scores, places, geometry, rows = buffers
        with each_row(1 + form.points, COLUMNS, on_gpu=on_gpu) as (row, column), T.If(row == int64(0)):
            with T.Then():
                T.buffer_store(rows, tirx.Select(column == int64(0), float32(form.points), float32(0)), [column])
            with T.Else():
                point = T.Bind(row - 1)
                peak = _Peak(form, maps, point, T.Bind(places[point].astype("int64")))
                for axis in range(2):
                    with T.If(column == int64(axis)), T.Then():
                        found = map_to_frame(geometry, peak.find(axis), axis)
                        T.buffer_store(rows, found, [row * COLUMNS + axis])
                with T.If(column == int64(2)), T.Then():
                    T.buffer_store(rows, scores[point], [row * COLUMNS + 2])
    return mark_scheduled(builder.get())


def write_planes(form: PointMaps, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from maps with their points in the last dimension to those of ``form``."""
    cells = form.height * form.width
    given = ((1, form.height, form.width, form.points), form.output[1])
    with begin_kernel("planes", [given], [form.output]) as (builder, buffers):
        maps, planes = buffers
        with each_row(form.points, cells, on_gpu=on_gpu) as (point, cell):
            T.buffer_store(planes, maps[cell * form.points + point], [point * cells + cell])
    return mark_scheduled(builder.get())


class _Peak:
    """The peak of a heatmap."""

    def __init__(self, form: PointMaps, maps: Any, point: Any, place: Any) -> None:
        self.form, self.maps = form, maps
        self.begin, self.place = point * (form.height * form.width), place

    def find(self, axis: int) -> Any:
        """Return the coordinate in the input's pixels, x for axis 0 and y for axis 1."""
        size, step = (self.form.width, 1) if axis == 0 else (self.form.height, self.form.width)
        at = T.Bind(self.place // step % size if axis == 0 else self.place // step)
        before, behind = tirx.Max(at - 1, int64(0)), tirx.Min(at + 1, int64(size - 1))
        higher, lower = (load(self.maps, self.begin + self.place + (each - at) * step) for each in (behind, before))
        within = tirx.all(at > int64(0), at < int64(size - 1))
        shift = tirx.Select(higher > lower, float32(_SHIFT), tirx.Select(higher < lower, float32(-_SHIFT), float32(0)))
        found = at.astype("float32") + tirx.Select(within, shift, float32(0))
        return found * float32(self.form.input_size[1 - axis] / size)
