"""The kernel that makes candidates from outputs with a box for each cell of several grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.base.grid_forms import GridForm, Part
from tvmbuild.compiler.ir.expressions import float32, int32, int64
from tvmbuild.compiler.ir.prim_funcs import mark_scheduled
from tvmbuild.compiler.kernels.buffers import Form, begin_kernel
from tvmbuild.compiler.kernels.loops import each_chunk, each_thread, where
from tvmbuild.compiler.kernels.results.best import find_best, keep, scatter, squash
from tvmbuild.compiler.kernels.results.select import list_candidate_forms
from tvmbuild.compiler.kernels.results.visits import LANES
from tvmbuild.compiler.kernels.vectors import load, local, number, spread, store

_SIDES = 4
_OF_MAPS: tuple[Part, Part] = ("offsets", "sizes")


@dataclass(frozen=True)
class GridPart:
    """An output of a grid, flat: the places of its values."""

    output: Form
    values: int
    """The number of values of a candidate."""
    steps: tuple[int, int, int]
    """The distances of two anchors, of two cells and of two values."""

    def locate(self, anchor: int, cell: Any, value: Any) -> Any:
        """Return the place of a value of a candidate."""
        of_anchor, of_cell, of_value = self.steps
        return cell * of_cell + value * of_value + anchor * of_anchor


@dataclass(frozen=True)
class Grid:
    """A grid: a cell for each ``stride`` pixels of the input."""

    rows: int
    columns: int
    stride: float
    parts: tuple[GridPart, ...]
    """The outputs, by the parts of the form."""
    anchors: tuple[tuple[float, float], ...] = ()
    """Width and height of each anchor in pixels."""

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    @property
    def count(self) -> int:
        """The number of candidates."""
        return self.cells * max(1, len(self.anchors))


@dataclass(frozen=True)
class GridCandidates:
    """The candidates of all grids: grid by grid, in each anchor by anchor."""

    form: GridForm
    grids: tuple[Grid, ...]
    classes: int

    @cached_property
    def count(self) -> int:
        """The number of candidates."""
        return sum(grid.count for grid in self.grids)

    @property
    def points(self) -> int:
        """The number of values that are points of a candidate."""
        return 2 * self.form.points

    def list_inputs(self) -> list[Form]:
        """Return the forms of the outputs in the network's order."""
        return [grid.parts[place].output for place in range(len(self.form.parts)) for grid in self.grids]

    def list_cells(self) -> np.ndarray:
        """Return the columns and the rows of the cells of all grids, float32 [2, cells]."""
        found = [np.mgrid[: grid.rows, : grid.columns][::-1].reshape(2, -1) for grid in self.grids]
        return np.concatenate(found, axis=1).astype(np.float32)

    def list_outputs(self) -> list[Form]:
        """Return the forms of boxes, scores and classes, and of the points if the form has some."""
        return [*list_candidate_forms(self.count), *([((self.count, self.points), "float32")] if self.points else [])]


def write_grid_candidates(form: GridCandidates, *, on_gpu: bool) -> tirx.PrimFunc:
    """Return the function from the network's outputs, the cells and the thresholds to candidates.

    Boxes and points are written only for vectors of cells with a score that exceeds the first threshold. If one output
    has all values, classes are looked at only where objectness exceeds it; the other scores are 0.
    """
    cells = form.list_cells()
    inputs = [*form.list_inputs(), (cells.shape, "float32"), ((2,), "float32")]
    with begin_kernel("candidates", inputs, form.list_outputs()) as (builder, buffers):
        if on_gpu:
            _write_threads(form, buffers)
        else:
            for write, grid in _list_writers(form, buffers):
                lanes = LANES if grid.cells >= LANES and all(part.steps[1] == 1 for part in grid.parts) else 1
                with each_chunk(grid.cells, lanes) as cell:
                    write(cell, lanes)
    return mark_scheduled(builder.get())


Write = Callable[[Any, int], None]


def _list_writers(form: GridCandidates, buffers: Sequence[Any]) -> list[tuple[Write, Grid]]:
    """Return the writer of each anchor of each grid; it takes the first of some cells, and their number."""
    writers: list[tuple[Write, Grid]] = []
    begin = cell_begin = 0
    for number_, grid in enumerate(form.grids):
        for anchor in range(max(1, len(grid.anchors))):
            kernel = _Cells(form, (number_, anchor), buffers)
            writers.append((kernel.place((begin, cell_begin)), grid))
            begin += grid.cells
        cell_begin += grid.cells
    return writers


def _write_threads(form: GridCandidates, buffers: Sequence[Any]) -> None:
    """Write the loop of a GPU: a thread for each candidate."""
    with each_thread(form.count) as place:
        begin = 0
        for write, grid in _list_writers(form, buffers):
            inside = tirx.all(place >= int64(begin), place < int64(begin + grid.cells))
            with where(inside, always=grid.cells == form.count):
                write(T.Bind(place - begin), 1)
            begin += grid.cells


class _Cells:
    """The cells of a grid with one of its anchors."""

    def __init__(self, form: GridCandidates, which: tuple[int, int], buffers: Sequence[Any]) -> None:
        number_, self.anchor = which
        self.form, self.grid = form, form.grids[number_]
        count = len(form.grids)
        self.data = {part: buffers[place * count + number_] for place, part in enumerate(form.form.parts)}
        self.cells = buffers[len(form.form.parts) * count]
        self.thresholds = buffers[len(form.form.parts) * count + 1]
        self.boxes, self.scores, self.classes, *points = buffers[len(form.form.parts) * count + 2 :]
        self.points = points[0] if points else None
        self.begin = self.cell_begin = 0

    def place(self, begins: tuple[int, int]) -> Write:
        """Return the writer of the cells; its candidates and its cells begin at these places."""
        self.begin, self.cell_begin = begins
        return self.write

    def write(self, cell: Any, lanes: int) -> None:
        """Write the candidates of neighbouring cells."""
        candidate = cell + self.begin
        if "all" not in self.data:
            self._write_likely(cell, candidate, lanes)
            return
        store(self.scores, number(0, lanes), candidate, lanes)
        store(self.classes, spread(int32(0), lanes), candidate, lanes)
        highest = self._find_highest(lambda lane: self._read("all", cell + lane, int64(_SIDES), 1), lanes)
        with T.If(squash(highest, 1) > self.thresholds[0]), T.Then():
            self._write_likely(cell, candidate, lanes)

    def _write_likely(self, cell: Any, candidate: Any, lanes: int) -> None:
        """Write the scores of cells, and all else if one of them exceeds the threshold."""
        part, begin = self._scores
        best, kind = find_best(lambda index: self._read(part, cell, index + begin, lanes), self.form.classes, lanes)
        store(self.classes, kind, candidate, lanes)
        store(self.scores, self._score(cell, best, lanes), candidate, lanes)
        highest = self._find_highest(lambda lane: self.scores[candidate + lane], lanes)
        with T.If(highest > self.thresholds[0]), T.Then():
            if self.form.form.boxes == "map":
                with T.serial(int64(lanes)) as lane:
                    self._drop_slope(T.Bind(cell + lane), T.Bind(candidate + lane))
            self._write_places(cell, candidate, lanes)

    @staticmethod
    def _find_highest(read: Callable[[Any], Any], lanes: int) -> Any:
        """Return the largest of ``lanes`` values."""
        if lanes == 1:
            return T.Bind(read(int64(0)))
        highest = local(1)
        T.buffer_store(highest, tirx.min_value("float32"), [0])
        with T.serial(int64(lanes)) as lane:
            T.buffer_store(highest, tirx.Max(highest[0], read(lane)), [0])
        return T.Bind(highest[0])

    def _write_places(self, cell: Any, candidate: Any, lanes: int) -> None:
        """Write the boxes and points of cells."""
        stride, total = number(self.grid.stride, lanes), sum(grid.cells for grid in self.form.grids)
        across, down = (T.Bind(load(self.cells, cell + self.cell_begin + axis * total, lanes)) for axis in range(2))
        place = (across, down)
        for side, value in enumerate(self._find_box(cell, place, lanes)):
            scatter(self.boxes, value, candidate * _SIDES + side, _SIDES, lanes)
        values = self.form.points
        for point in range(values):
            value = (self._read("points", cell, int64(point), lanes) + place[point % 2]) * stride
            scatter(self.points, value, candidate * values + point, values, lanes)

    @property
    def _scores(self) -> tuple[Part, int]:
        """The output with the classes' scores, and the place of the first among a candidate's values."""
        return ("all", _SIDES + 1) if "all" in self.data else ("classes", 0)

    def _score(self, cell: Any, best: Any, lanes: int) -> Any:
        form = self.form.form
        found = squash(best, lanes) if form.sigmoid else best
        if "all" in self.data:
            return found * squash(self._read("all", cell, int64(_SIDES), lanes), lanes)
        if "objectness" not in self.data:
            return found
        product = found * self._read("objectness", cell, int64(0), lanes)
        return tirx.sqrt(tirx.Max(product, number(0, lanes))) if form.root else product

    def _drop_slope(self, cell: Any, candidate: Any) -> None:
        """Give a cell the score 0 if one of its eight neighbours has a higher score of its class."""
        grid, kind = self.grid, T.Bind(self.classes[candidate].astype("int64"))
        row, column = cell // grid.columns, cell % grid.columns
        own = T.Bind(self._read("classes", cell, kind, 1))
        rows = [tirx.Max(tirx.Min(row + step, int64(grid.rows - 1)), int64(0)) for step in (-1, 0, 1)]
        columns = [tirx.Max(tirx.Min(column + step, int64(grid.columns - 1)), int64(0)) for step in (-1, 0, 1)]
        near = [self._read("classes", y * grid.columns + x, kind, 1) for y in rows for x in columns]
        with T.If(tirx.any(*(each > own for each in near))), T.Then():
            T.buffer_store(self.scores, float32(0), [candidate])

    def _find_box(self, cell: Any, place: tuple[Any, Any], lanes: int) -> list[Any]:
        """Return left, top, right and bottom of cells in pixels."""
        stride = number(self.grid.stride, lanes)
        if self.form.form.boxes == "distances":
            before, behind = self._find_distances(cell, lanes)
            centres = [each + number(0.5, lanes) for each in place]
            return [
                *((at - far) * stride for at, far in zip(centres, before, strict=True)),
                *((at + far) * stride for at, far in zip(centres, behind, strict=True)),
            ]
        centres, sides = self._find_centre(cell, place, lanes)
        halves = [T.Bind(side * number(0.5, lanes)) for side in sides]
        ends = list(zip((T.Bind(centre * stride) for centre in centres), halves, strict=True))
        return [*(at - half for at, half in ends), *(at + half for at, half in ends)]

    def _find_centre(self, cell: Any, place: tuple[Any, Any], lanes: int) -> tuple[list[Any], list[Any]]:
        """Return x and y of the boxes' centres in strides, and width and height in pixels."""
        form, stride = self.form.form, number(self.grid.stride, lanes)
        if form.boxes == "map":
            offsets, sizes = ([self._read(part, cell, int64(at), lanes) for at in range(2)] for part in _OF_MAPS)
            return [at + offset for at, offset in zip(place, offsets, strict=True)], [each * stride for each in sizes]
        part: Part = "all" if "all" in self.data else "boxes"
        x, y, across, down = (T.Bind(self._read(part, cell, int64(at), lanes)) for at in range(_SIDES))
        if form.boxes == "centre":
            return [place[0] + x, place[1] + y], [keep(tirx.exp(each), lanes) * stride for each in (across, down)]
        anchor = [number(side, lanes) for side in self.grid.anchors[self.anchor]]
        shares = [keep(squash(each, lanes), lanes) for each in (x, y)]
        if form.boxes == "yolov3":
            sides = [keep(tirx.exp(each), lanes) * side for each, side in zip((across, down), anchor, strict=True)]
            return [at + share for at, share in zip(place, shares, strict=True)], sides
        two, half = number(2, lanes), number(0.5, lanes)
        twice = [keep(squash(each, lanes), lanes) * two for each in (across, down)]
        centres = [at + share * two - half for at, share in zip(place, shares, strict=True)]
        return centres, [each * each * side for each, side in zip(twice, anchor, strict=True)]

    def _find_distances(self, cell: Any, lanes: int) -> tuple[list[Any], list[Any]]:
        """Return the distances to left and top, and to right and bottom: the means of distributions over bins."""
        bins = self.grid.parts[self.form.form.parts.index("boxes")].values // _SIDES
        found = []
        for side in range(_SIDES):
            values = [T.Bind(self._read("boxes", cell, int64(side * bins + each), lanes)) for each in range(bins)]
            if bins == 1:
                found.append(values[0])
                continue
            highest = values[0]
            for value in values[1:]:
                highest = tirx.Max(highest, value)
            highest = keep(highest, lanes)
            weights = [keep(tirx.exp(value - highest), lanes) for value in values]
            total, mean = weights[0], number(0, lanes)
            for place, weight in enumerate(weights[1:], 1):
                total, mean = total + weight, mean + weight * number(place, lanes)
            found.append(keep(mean / total, lanes))
        return found[:2], found[2:]

    def _read(self, part: Part, cell: Any, value: Any, lanes: int) -> Any:
        own = self.grid.parts[self.form.form.parts.index(part)]
        return load(self.data[part], own.locate(self.anchor, cell, value), lanes)
