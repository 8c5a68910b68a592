"""Labels name each class of a result, or the build ends: otherwise some classes would have wrong names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvmbuild.base.postprocess_specs import Boxes, Classes, Heatmaps, Masks, Postprocess, Segmentation, Text
from tvmbuild.compiler.entries import check_entries
from tvmbuild.compiler.interface import EntryOptions, Interface
from tvmbuild.compiler.results.table import check_labels
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo

pytestmark = pytest.mark.compiler
Shapes = list[tuple[int, ...]]
CASES: dict[str, tuple[Postprocess, Shapes, int]] = {
    "boxes": (Boxes("yolov8"), [(1, 7, 84)], 3),
    "boxes without an object": (Boxes("detr"), [(1, 20, 5), (1, 20, 4)], 4),
    "grids": (Boxes("yolov5_raw", anchors=((1.0, 2.0),)), [(1, 7, 8, 8)], 2),
    "masks": (Masks("yolov8"), [(1, 9, 84), (1, 2, 16, 16)], 3),
    "classes": (Classes(), [(1, 5)], 5),
    "a map": (Segmentation(), [(1, 4, 16, 16)], 4),
    "a map with one score": (Segmentation(activation="sigmoid"), [(1, 1, 16, 16)], 2),
}
"""A result, the shapes of its outputs, and the number of its classes."""
UNKNOWN: dict[str, tuple[Postprocess, Shapes]] = {
    "ready boxes": (Boxes("end2end"), [(1, 20, 6)]),
    "text": (Text(), [(1, 20, 37)]),
    "heatmaps": (Heatmaps(), [(1, 39, 16, 16)]),
}


def interface(shapes: Shapes) -> Interface:
    outputs = tuple(TensorInfo(f"out{place}", shape, "float32") for place, shape in enumerate(shapes))
    return Interface("net", (TensorInfo("picture", (1, 3, 64, 64), "float32"),), outputs)


@pytest.mark.parametrize("case", CASES)
def test_each_class_has_a_name(case: str) -> None:
    asked, shapes, count = CASES[case]
    options, names = EntryOptions(None, (), (asked,)), [f"name {number}" for number in range(count + 1)]
    check_labels(interface(shapes), options)
    check_labels(interface(shapes), options, names[:count])
    for wrong in (names, names[: count - 1]):
        own = EntryOptions(None, (), (replace(asked, labels=tuple(wrong)),))  # type: ignore[arg-type]
        message = rf"has {len(wrong)} names, and the result .* has {count} classes"
        with pytest.raises(TvmbuildError, match=message):
            check_labels(interface(shapes), options, wrong)
        with pytest.raises(TvmbuildError, match=message):
            check_entries(interface(shapes), own)


@pytest.mark.parametrize("case", UNKNOWN)
def test_outputs_that_do_not_tell_their_classes(case: str) -> None:
    asked, shapes = UNKNOWN[case]
    check_labels(interface(shapes), EntryOptions(None, (), (asked,)), ["one", "two"])
