"""The results of a package as small objects: boxes around objects, and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tvmbuild.base.postprocess_specs import Boxes, Postprocess
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo


@dataclass(frozen=True)
class Box:
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

    def as_dict(self) -> dict[str, object]:
        """Return the fields as a map, for example for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Class:
    """A class of a frame with its probability."""

    score: float
    index: int
    label: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the fields as a map, for example for JSON."""
        return asdict(self)


Results = tuple[Box, ...] | tuple[Class, ...]


def require_postprocess(info: PackageInfo) -> Postprocess:
    """Return the result that a package makes. Raises TvmbuildError if it makes none."""
    if info.postprocess is None:
        raise TvmbuildError(
            f"{info.model} does not say what its outputs mean",
            "add `postprocess` to the model in models.yaml and build it again",
        )
    return info.postprocess


def make_thresholds(asked: Postprocess, score: float | None = None, overlap: float | None = None) -> np.ndarray:
    """Return the thresholds of scores and of overlaps, float32 [2]; None stands for those of the package."""
    own = asked.overlap if isinstance(asked, Boxes) else 1.0
    return np.array([asked.score if score is None else score, own if overlap is None else overlap], np.float32)


def read_results(asked: Postprocess, arrays: Sequence[np.ndarray], labels: Sequence[str] | None) -> Results:
    """Return the results in a package's arrays: boxes [n, 4], scores [n], classes [n] and their count [1]."""
    boxes, scores, classes, count = arrays
    found = int(count[0])
    values, numbers = scores[:found].tolist(), classes[:found].tolist()
    names = [labels[number] if labels is not None and 0 <= number < len(labels) else None for number in numbers]
    if not isinstance(asked, Boxes):
        return tuple(map(Class, values, numbers, names))
    return tuple(
        Box(left, top, right - left, bottom - top, score, number, name)
        for (left, top, right, bottom), score, number, name in zip(
            boxes[:found].tolist(), values, numbers, names, strict=True
        )
    )
