"""The results of a package as small objects: boxes, classes, maps of classes, texts, vectors, points, outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np


class _Result:
    """A result."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a map for JSON. Pixels are counted, not listed."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {key: _simplify(value) for key, value in values.items()}


def _simplify(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 1 else int(np.count_nonzero(value))
    if isinstance(value, tuple):
        return [_simplify(each) for each in value]
    return value.as_dict() if isinstance(value, _Result) else value


@dataclass(frozen=True)
class Point(_Result):
    """A point in the frame's pixels."""

    x: float
    y: float
    score: float = 1.0
    """The score, or 1 if the network gives none."""
    index: int = 0
    """The number of the point: its place in the network's output."""
    label: str | None = None
    """The name of a heatmap, or None if the package has no labels."""


@dataclass(frozen=True)
class Box(_Result):
    """An object in a frame. The box is in the frame's pixels, from its left upper corner on."""

    x: float
    y: float
    width: float
    height: float
    score: float
    index: int
    """The number of the class."""
    label: str | None = None
    """The name of the class, or None if the package has no labels."""
    points: tuple[Point, ...] = ()
    """The keypoints of a result `keypoints`."""
    mask: np.ndarray | None = field(default=None, compare=False)
    """The pixels of the object, bool [height, width], in a result `masks`. No pixel has two objects."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a map for JSON, with the number of a mask's pixels."""
        left_out = {name for name, value in (("points", self.points or None), ("mask", self.mask)) if value is None}
        return {key: value for key, value in super().as_dict().items() if key not in left_out}


@dataclass(frozen=True)
class Class(_Result):
    """A class of a frame with its probability."""

    score: float
    index: int
    label: str | None = None


@dataclass(frozen=True)
class Map(_Result):
    """The class of each pixel of a frame."""

    classes: np.ndarray = field(compare=False)
    """The classes, uint8 [height, width]; 255 means a pixel that the network has not seen."""
    labels: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return height, width, and for each class in the frame its number, its name and the number of its pixels."""
        numbers, counts = np.unique(self.classes, return_counts=True)
        found = [
            {"index": number, "label": name_class(self.labels, number), "pixels": count}
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        ]
        return {"height": self.classes.shape[0], "width": self.classes.shape[1], "classes": found}


@dataclass(frozen=True)
class Text(_Result):
    """A line of text."""

    text: str
    """The characters. A symbol without a label is written as its number in angle brackets."""
    score: float
    """The mean probability of the characters, or 0 without any."""
    symbols: tuple[int, ...] = ()
    """The numbers of the symbols in the network's output."""


@dataclass(frozen=True)
class Vector(_Result):
    """A vector that describes a frame."""

    values: np.ndarray = field(compare=False)
    """The vector, float32 [length]."""


@dataclass(frozen=True)
class Output(_Result):
    """An output as it is."""

    name: str
    values: np.ndarray = field(compare=False)
    """The values, in the shape and dtype of the network's output."""

    def as_dict(self) -> dict[str, Any]:
        """Return the name, and dtype and shape of the values, which are too many for JSON."""
        return {"name": self.name, "dtype": str(self.values.dtype), "shape": list(self.values.shape)}


Result = Box | Class | Map | Text | Vector | Point | Output
_Kind = TypeVar("_Kind", bound=Result)


class Results(tuple[Result, ...]):  # noqa: SLOT001 - a tuple cannot have slots
    """The results in a frame, one kind after the other, and the best of a kind first.

    The properties are those of C++'s ``Results``: each has the results of one kind.
    """

    by_kind: Mapping[str, tuple[Result, ...]]
    """Kind of result in models.yaml → its results. A further result of a kind has its number, too:
    `segmentation 2`."""

    def __new__(cls, by_kind: Mapping[str, tuple[Result, ...]]) -> Results:  # noqa: PYI034 - typing.Self needs Python 3.11
        """Return the results of all kinds."""
        made = super().__new__(cls, (each for found in by_kind.values() for each in found))
        made.by_kind = by_kind
        return made

    def __getnewargs__(self) -> tuple[Mapping[str, tuple[Result, ...]]]:
        """Return the arguments of ``__new__``, for a copy."""
        return (self.by_kind,)

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The boxes, of `boxes`, `masks` or `keypoints`."""
        return self._list(Box)

    @property
    def classes(self) -> tuple[Class, ...]:
        """The likeliest classes, of all `classes` in their order."""
        return self._list(Class)

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of heatmaps, of all `heatmaps` in their order."""
        return self._list(Point)

    @property
    def segmentation(self) -> Map | None:
        """The class of each pixel, the first map of several, or None if the package has no `segmentation`."""
        return next(iter(self.segmentations), None)

    @property
    def segmentations(self) -> tuple[Map, ...]:
        """The classes of each pixel, a map for each `segmentation` of the package."""
        return self._list(Map)

    @property
    def text(self) -> Text | None:
        """The line of text, or None if the package has no `text`."""
        return next(iter(self._list(Text)), None)

    @property
    def vector(self) -> Vector | None:
        """The vector, or None if the package has no `vector`."""
        return next(iter(self._list(Vector)), None)

    @property
    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of `raw`, by name."""
        return {each.name: each.values for each in self._list(Output)}

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return kind → the fields of its results, for JSON."""
        return {kind: [each.as_dict() for each in found] for kind, found in self.by_kind.items()}

    def _list(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(each for each in self if isinstance(each, kind))


def name_class(labels: tuple[str, ...] | None, number: int) -> str | None:
    """Return the label of a class, or None if it has none."""
    return labels[number] if labels is not None and 0 <= number < len(labels) else None
