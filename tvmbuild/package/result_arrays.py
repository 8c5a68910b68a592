"""The arrays that a package's functions return for a result, and the objects that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmbuild.base.postprocess_specs import (
    Boxes,
    Classes,
    Heatmaps,
    Keypoints,
    Masks,
    Postprocess,
    Raw,
    Segmentation,
    Text,
    Vector,
    is_in_input,
    kind_of,
    name_results,
)
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.results import Box, Class, Map, Output, Point, Result, Results, name_class
from tvmbuild.package.results import Text as TextFound
from tvmbuild.package.results import Vector as VectorFound

_COLUMNS = 6
"""Left, top, right, bottom, score and class."""


@dataclass(frozen=True)
class Placed:
    """The arrays of results, and the place of a frame in its maps if these have the network's size."""

    arrays: Sequence[np.ndarray]
    geometry: np.ndarray | None = None
    """The numbers that map a point of the input to the frame; None if the maps have the frame's size already."""

    @property
    def margin(self) -> int:
        """The number of pixels of a mask beyond its box, because the mask may have another resolution."""
        return 1 if self.geometry is None else 1 + int(np.ceil(max(self.geometry[2:4])))

    def find_map(self, place: int, asked: Postprocess) -> np.ndarray:
        """Return a map at the size that is asked for: where the package has not drawn it so, by the nearest pixels."""
        drawn = self.arrays[place]
        if self.geometry is None or is_in_input(asked):
            return drawn
        left, top, across, down, width, height = map(float, self.geometry)
        rows, columns = (
            np.floor((np.arange(int(size)) + 0.5) / scale + offset).astype(np.int64)
            for size, scale, offset in ((height, down, top), (width, across, left))
        )
        found: np.ndarray = drawn[np.clip(rows, 0, drawn.shape[0] - 1)][:, np.clip(columns, 0, drawn.shape[1] - 1)]
        found[(rows < 0) | (rows >= drawn.shape[0])] = OUTSIDE
        found[:, (columns < 0) | (columns >= drawn.shape[1])] = OUTSIDE
        return found


_THRESHOLDS = ("score", "overlap")
OUTSIDE = 255
"""The value of a map at pixels that the network has not seen."""


def require_postprocess(info: PackageInfo) -> tuple[Postprocess, ...]:
    """Return the results that a package makes. Raises TvmbuildError if it makes none."""
    if not info.postprocess:
        raise TvmbuildError(
            f"{info.model} does not say what its outputs mean",
            "add `postprocess` to the model in models.yaml and build it again",
        )
    return info.postprocess


def make_thresholds(
    asked: tuple[Postprocess, ...], score: float | None = None, overlap: float | None = None
) -> dict[str, np.ndarray]:
    """Return name of a result → its thresholds of scores and of overlaps, float32 [2].

    A number replaces the threshold of the first result that has it; None stands for those of the package. Raises
    TvmbuildError if no result has the threshold.
    """
    made = [np.array([_own(each, name) for name in _THRESHOLDS], np.float32) for each in asked]
    for place, (name, given) in enumerate(zip(_THRESHOLDS, (score, overlap), strict=True)):
        if given is None:
            continue
        adjusted = find_adjustable(asked, name)
        if adjusted is None:
            who = f"a result {' and '.join(f'`{kind_of(each)}`' for each in asked)}" if asked else "a model's output"
            raise TvmbuildError(f"{who} has no threshold `{name}`", f"leave `{name}` out")
        value = np.asarray(given)
        if value.ndim or value.dtype.kind not in "fiu":
            raise TvmbuildError(f"the threshold `{name}` is {given!r}, and must be a number", "correct it")
        if name == "score" and np.isnan(given):
            raise TvmbuildError("the threshold `score` is NaN, and must be a number", "correct it")
        if name == "overlap" and not 0 <= given <= 1:
            raise TvmbuildError(f"the threshold `overlap` is {given:g}, and must be from 0 to 1", "correct it")
        made[next(number for number, each in enumerate(asked) if each is adjusted)][place] = given
    return dict(zip(name_results(asked), made, strict=True))


def find_adjustable(asked: tuple[Postprocess, ...], name: str = "score") -> Postprocess | None:
    """Return the first result that has the threshold, which a call may replace, or None if none has it."""
    return next((each for each in asked if hasattr(each, name)), None)


def _own(asked: Postprocess, name: str) -> float:
    return float(getattr(asked, name, 1.0))


def read_results(info: PackageInfo, placed: Placed) -> Results:
    """Return the results in the arrays of a package's function."""
    found, begin = {}, 0
    for name, each in zip(name_results(info.postprocess), info.postprocess, strict=True):
        end = begin + _count_arrays(each)
        own = Placed(placed.arrays[begin:end], placed.geometry)
        found[name] = tuple(_READ_BY[type(each)](each, own, find_labels(info, each)))
        begin = end
    return Results(found)


def find_labels(info: PackageInfo, asked: Postprocess) -> Labels:
    """Return the names of a result's classes: its own, else those of the model. None: it has none."""
    own: tuple[str, ...] = getattr(asked, "labels", ())
    return own or info.labels


def _count_arrays(asked: Postprocess) -> int:
    """Return the number of arrays of a result: masks have a map after their boxes."""
    return len(asked.outputs) if isinstance(asked, Raw) else 2 if isinstance(asked, Masks) else 1


def _read_rows(array: np.ndarray) -> list[list[float]]:
    """Return the rows of a result's array; the first value is their number."""
    found: list[list[float]] = array[1 : 1 + int(array[0, 0])].tolist()
    return found


Labels = tuple[str, ...] | None
_PLACE = 2
"""The number of values of a place: x and y."""


def _read_boxes(asked: Boxes, placed: Placed, labels: Labels) -> list[Result]:
    drawn = placed.find_map(1, asked) if isinstance(asked, Masks) else None
    results: list[Result] = []
    rows = _read_rows(placed.arrays[0])
    corners = placed.arrays[0][1 : 1 + len(rows)]
    sizes = (corners[:, 2:4] - corners[:, :2]).tolist()  # in float32, as in C++
    for place, row in enumerate(rows):
        left, top, right, bottom, score, number = row[:_COLUMNS]
        step = asked.values if isinstance(asked, Keypoints) else 1
        begins = range(_COLUMNS, len(row), step)
        points = tuple(
            Point(row[at], row[at + 1], row[at + 2] if step > _PLACE else 1.0, index) for index, at in enumerate(begins)
        )
        mask = None
        if drawn is not None:
            near = None if is_in_input(asked) else (left, top, right, bottom)
            mask = _cut_mask(drawn, place + 1, near, placed.margin)
        width, height = sizes[place]
        results.append(Box(left, top, width, height, score, int(number), name_class(labels, int(number)), points, mask))
    return results


def _cut_mask(drawn: np.ndarray, number: int, box: Sequence[float] | None, margin: int) -> np.ndarray:
    """Return the pixels of an object. Only those near its box are looked at, because a mask lies inside of its box.

    Without a ``box``, which has other pixels than the map, all are looked at.
    """
    if box is None:
        found: np.ndarray = drawn == number
        return found
    mask = np.zeros(drawn.shape, bool)
    rows, columns = (
        slice(int(max(0, min(size, begin - margin))), int(max(0, min(size, end + margin))))
        for size, begin, end in zip(drawn.shape, box[1::-1], box[:1:-1], strict=True)
    )
    mask[rows, columns] = drawn[rows, columns] == number
    return mask


def _read_classes(_: Classes, placed: Placed, labels: Labels) -> list[Result]:
    rows = _read_rows(placed.arrays[0])
    return [Class(row[4], int(row[5]), name_class(labels, int(row[5]))) for row in rows]


def _read_map(asked: Segmentation, placed: Placed, labels: Labels) -> list[Result]:
    return [Map(placed.find_map(0, asked), labels)]


def _read_text(asked: Text, placed: Placed, labels: Labels) -> list[Result]:
    rows = _read_rows(placed.arrays[0])
    symbols = tuple(int(symbol) for symbol, _ in rows)
    behind = 1 if asked.blank == "first" else 0
    names = [name_class(labels, symbol - behind) for symbol in symbols]
    text = "".join(f"<{symbol}>" if name is None else name for symbol, name in zip(symbols, names, strict=True))
    score = float(np.float32(sum(each for _, each in rows) / len(rows))) if rows else 0.0
    return [TextFound(text, score, symbols)]


def _read_vector(_: Vector, placed: Placed, __: Labels) -> list[Result]:
    return [VectorFound(placed.arrays[0])]


def _read_points(_: Heatmaps, placed: Placed, labels: Labels) -> list[Result]:
    rows = _read_rows(placed.arrays[0])
    return [Point(x, y, score, number, name_class(labels, number)) for number, (x, y, score) in enumerate(rows)]


def _read_outputs(asked: Raw, placed: Placed, _: Labels) -> list[Result]:
    return [Output(name, values) for name, values in zip(asked.outputs, placed.arrays, strict=True)]


_READ_BY: Mapping[type[Postprocess], Callable[[Any, Placed, Labels], list[Result]]] = {
    Boxes: _read_boxes,
    Masks: _read_boxes,
    Keypoints: _read_boxes,
    Classes: _read_classes,
    Segmentation: _read_map,
    Text: _read_text,
    Vector: _read_vector,
    Heatmaps: _read_points,
    Raw: _read_outputs,
}
