"""The facts about a network's outputs that its exporter has written into the file."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TASKS = {"detect": "boxes", "segment": "masks", "pose": "keypoints", "classify": "classes", "semantic": "segmentation"}
"""The tasks of ultralytics' networks, and the kinds of results that they have."""
_KNOWN_TASKS = {*_TASKS, "obb"}
MAX_SHOWN = 12
"""The largest number of names that a proposal shows."""


@dataclass(frozen=True)
class Exported:
    """The facts about a network that ultralytics' exporter has written beside the graph."""

    task: str
    """The task that the network was trained for; `obb` finds boxes that are turned."""
    names: tuple[str, ...] = ()
    """The names of the classes. Empty if the file has none."""
    points: int = 0
    """The number of points of an object. Zero if the network finds none."""
    values: int = 0
    """The number of values of a point."""

    @property
    def kind(self) -> str | None:
        """The kind of result. None if no kind fits the task."""
        return _TASKS.get(self.task)

    def describe(self) -> list[str]:
        """Return lines for people about what a proposal of `postprocess` does not show."""
        lines = (
            [] if self.kind else [f"ultralytics' task {self.task} finds turned boxes, and no `postprocess` has them"]
        )
        if len(self.names) > MAX_SHOWN:
            shown = ", ".join(self.names[:3])
            lines.append(f"the file names {len(self.names)} classes ({shown}, …); --labels FILE writes them")
        return lines


def read_exported(properties: Mapping[str, str]) -> Exported | None:
    """Return the facts in the properties of an ONNX file, or None if another exporter has written it."""
    if properties.get("task") not in _KNOWN_TASKS:
        return None
    names, points = _parse(properties.get("names")), _parse(properties.get("kpt_shape"))
    if not isinstance(names, dict) or set(names) != set(range(len(names))):
        names = {}
    known = isinstance(points, list | tuple) and len(points) == 2 and all(isinstance(each, int) for each in points)
    count, values = points if known else (0, 0)
    return Exported(
        properties["task"], tuple(" ".join(str(names[place]).split()) for place in range(len(names))), count, values
    )


def _parse(text: str | None) -> Any:
    """Return the value of a literal of Python, as which the exporter writes lists and maps, or None."""
    try:
        return None if text is None else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
