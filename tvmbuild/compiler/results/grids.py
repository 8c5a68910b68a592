"""The boxes of a detector whose outputs are grids of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import relax

from tvmbuild.base.grid_forms import GRID_FORMS, GridForm
from tvmbuild.base.postprocess_specs import Boxes, Keypoints, kind_of
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.kernels.results.grids import Grid, GridCandidates, GridPart, write_grid_candidates
from tvmbuild.compiler.kernels.results.select import More, Selection, write_selection
from tvmbuild.compiler.results.form import KernelCalls, Request
from tvmbuild.compiler.results.outputs import find_input_size, find_outputs, refuse_counted
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

_VALUES = {"objectness": 1, "points": 0, "sizes": 2, "offsets": 2}
_ROWS = 3
"""The number of axes of an output with cells as rows, [1, cells, values]."""
_SIDES_AT = {4: (2, 1), 5: (2,)}
"""Number of axes → the axes that may be a grid's rows: [1, values, rows, columns], [1, rows, columns, values], and
[1, anchors, rows, columns, values]."""
_PLACE = 2
"""The number of values of a point: x and y."""
_BEFORE_CLASSES = 5
"""The values of a candidate before its classes, if one output has them all: a box and objectness."""


@dataclass(frozen=True)
class GridResult:
    """Boxes of cells, with their points if these are asked for."""

    places: tuple[int, ...]
    candidates: GridCandidates
    selection: Selection

    @property
    def classes(self) -> int | None:
        """The number of classes that labels name, as in `ResultForm`."""
        return self.candidates.classes

    def write(self, calls: KernelCalls, request: Request) -> list[relax.Expr]:
        """Return the results [1 + most, columns]."""
        form = self.candidates
        function = write_grid_candidates(form, on_gpu=calls.on_gpu)
        found = calls.add(
            "candidates", function, [*request.outputs, form.list_cells(), request.thresholds], form.list_outputs()
        )
        more = found[3:] if self.selection.more is not None else []
        function = write_selection(self.selection, on_gpu=calls.on_gpu)
        arguments = [*found[:3], request.thresholds, request.geometry, *more]
        return calls.add("selection", function, arguments, self.selection.list_outputs())[:1]


def describe_grids(interface: Interface, options: EntryOptions, asked: Boxes) -> GridResult:
    """Return the form of the boxes. Raises TvmbuildError if the outputs are not the grids of the form."""
    form = GRID_FORMS[asked.form]
    said = f"a result `{kind_of(asked)}` of the form {asked.form}"
    count = len(asked.outputs) or len(interface.outputs)
    if count % len(form.parts):
        raise TvmbuildError(
            f"{said} needs outputs for {', '.join(form.parts)} of each grid; {interface.model} has or names {count}",
            "name them with `outputs` in its `postprocess` in models.yaml",
        )
    places = find_outputs(interface, asked.outputs, count, said)
    levels = count // len(form.parts)
    if form.with_anchors and len(asked.anchors) != levels:
        raise TvmbuildError(
            f"{said} needs `anchors` for each of {levels} grids; there are {len(asked.anchors)}",
            "list width and height of the anchors of each grid, in the order of the outputs",
        )
    size = find_input_size(interface, options.preprocess)
    infos = [interface.outputs[place] for place in places]
    for info in infos:
        if info.counts:
            raise refuse_counted(said, info)
    grids = [
        _Reader(form, infos[number::levels], size, said).read(asked.anchors[number] if form.with_anchors else ())
        for number in range(levels)
    ]
    classes = {grid.parts[0].values for grid in grids}
    if len(classes) != 1:
        raise TvmbuildError(f"{said} needs as many classes in each grid; there are {sorted(classes)}")
    candidates = GridCandidates(form, tuple(grids), classes.pop() - (_BEFORE_CLASSES if form.parts == ("all",) else 0))
    if candidates.classes < 1:
        raise TvmbuildError(f"{said} needs at least one class", "choose another `form`")
    return GridResult(places, candidates, _describe_selection(candidates, asked))


def _describe_selection(candidates: GridCandidates, asked: Boxes) -> Selection:
    form, more = candidates.form, None
    if isinstance(asked, Keypoints):
        if not form.points:
            raise TvmbuildError(f"the form {asked.form} has no keypoints", "choose the result `boxes`")
        if (asked.points, asked.values) != (form.points, _PLACE):
            raise TvmbuildError(
                f"the form {asked.form} has {form.points} points of {_PLACE} values; "
                f"`keypoints` asks for {asked.points} of {asked.values}",
                f"state `points: {form.points}, values: {_PLACE}`",
            )
        values = candidates.points
        more = More(((candidates.count, values), "float32"), values, lambda each, value: each * values + value, 2)
    return Selection(candidates.count, asked.most, form.suppress, asked.agnostic, more)


@dataclass(frozen=True)
class _Reader:
    """The reader of the outputs of a grid."""

    form: GridForm
    infos: Sequence[TensorInfo]
    size: tuple[int, int]
    said: str

    def read(self, anchors: Sequence[float]) -> Grid:
        """Return the grid. Raises TvmbuildError if the outputs do not fit."""
        pairs = tuple(zip(anchors[::2], anchors[1::2], strict=True))
        rows, columns = self._find_cells(self.infos[0], max(1, len(pairs)))
        parts = tuple(self._read_part(info, rows * columns, max(1, len(pairs))) for info in self.infos)
        for name, part in zip(self.form.parts, parts, strict=True):
            wanted = 2 * self.form.points if name == "points" else _VALUES.get(name, part.values)
            if part.values != wanted or (name == "boxes" and part.values % 4):
                raise self._refuse(f"{name} are {wanted} values of a cell")
        return Grid(rows, columns, self.size[0] / rows, parts, pairs)

    def _find_cells(self, info: TensorInfo, anchors: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of the grid."""
        (height, width), shape = self.size, info.shape
        rank = len(shape)
        sides = [tuple(shape[at : at + 2]) for at in _SIDES_AT.get(rank, ())]
        counts = [shape[1], shape[1] // anchors] if rank == _ROWS else []
        rows_of = {cells: round(math.sqrt(cells * height / width)) for cells in counts}
        sides += [(rows, cells // rows) for cells, rows in rows_of.items() if rows and cells % rows == 0]
        for rows, columns in sides:
            if rows * width == columns * height and rows * columns > 0:
                return rows, columns
        raise self._refuse(f"a grid has the proportions of the input of {height} by {width}")

    def _read_part(self, info: TensorInfo, cells: int, anchors: int) -> GridPart:
        """Return the places of an output's values: [1, …, cells, values], or [1, anchors · values, rows, columns]."""
        shape, total = info.shape, math.prod(info.shape)
        if len(shape) < 2 or shape[0] != 1 or total % (cells * anchors):
            raise self._refuse(f"{info.name} is {list(shape)}")
        values = total // (cells * anchors)
        is_map = len(shape) == 4 and shape[1] == anchors * values and math.prod(shape[2:]) == cells
        if is_map:
            return GridPart((shape, info.dtype), values, (values * cells, 1, cells))
        if math.prod(shape[1:-1]) == cells:  # all anchors of a cell are neighbours
            return GridPart((shape, info.dtype), values, (values, anchors * values, 1))
        return GridPart((shape, info.dtype), values, (values * cells, values, 1))

    def _refuse(self, what: str) -> TvmbuildError:
        shapes = ", ".join(f"{each.name} {list(each.shape)}" for each in self.infos)
        return TvmbuildError(
            f"{self.said}: {what}; a grid has {shapes}", "name its outputs in their order, or choose another `form`"
        )
