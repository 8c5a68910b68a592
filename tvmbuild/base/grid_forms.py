"""The forms of detectors whose outputs have a box for each cell of several grids, still relative to the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tvmbuild.base.postprocess_specs import BOX_FORMS

Part = Literal["classes", "objectness", "boxes", "points", "sizes", "offsets", "all"]
"""The part of a box that an output holds; ``all``: boxes, objectness and classes of each anchor, in this order."""


@dataclass(frozen=True)
class GridForm:
    """The form in which a family of detectors writes the boxes of cells. A new family is a row of `GRID_FORMS`."""

    parts: tuple[Part, ...]
    """The outputs in their order: all grids of the first part, then all grids of the next."""
    boxes: Literal["centre", "distances", "yolov3", "yolov5", "map"]
    """The place of a box by its cell.

    ``centre``: (cell + x, y) · stride, and e to the power of width and height, · stride. ``distances``: the distances
    of the sides from the cell's centre, in strides, each the mean of a distribution over bins. ``yolov3`` and
    ``yolov5``: the two ways to scale an anchor's width and height. ``map``: an offset and a size at a cell that is a
    peak among its eight neighbours.
    """
    sigmoid: bool = False
    """True if a sigmoid turns scores and objectness into probabilities."""
    root: bool = False
    """True if a score is the root of the class's probability times objectness, and not their product."""
    points: int = 0
    """The number of points of a box."""
    suppress: bool = True
    """True if the outputs have overlapping boxes, so that non-maximum suppression is needed."""

    @property
    def with_anchors(self) -> bool:
        """Return whether a cell has a box for each anchor."""
        return self.boxes in ("yolov3", "yolov5")


GRID_FORMS: dict[str, GridForm] = {
    "yolov3_raw": GridForm(("all",), "yolov3", sigmoid=True),
    "yolov5_raw": GridForm(("all",), "yolov5", sigmoid=True),
    "yunet": GridForm(("classes", "objectness", "boxes", "points"), "centre", root=True, points=5),
    "nanodet": GridForm(("classes", "boxes"), "distances"),
    "centernet": GridForm(("classes", "sizes", "offsets"), "map", sigmoid=True, suppress=False),
}
"""Name of a form in models.yaml → the description of its outputs."""
FORMS: dict[str, tuple[str, ...]] = {
    "boxes": (*BOX_FORMS, *GRID_FORMS),
    "masks": tuple(name for name, form in BOX_FORMS.items() if form.extensible),
    "keypoints": (
        *(name for name, form in BOX_FORMS.items() if form.extensible),
        *(name for name, form in GRID_FORMS.items() if form.points),
    ),
}
"""Kind of result with boxes → the names of its forms in models.yaml."""
