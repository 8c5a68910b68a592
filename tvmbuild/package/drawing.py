"""Drawing results into a picture: a box with a name for each object, or a list of classes."""

from __future__ import annotations

import math
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from tvmbuild.package.results import Box, Class, Results

COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#800000")
"""The colours of boxes; the number of a class chooses one."""


def draw_results(picture: Image.Image, results: Results) -> Image.Image:
    """Return a copy of the picture with the results: boxes with names, or lines with classes in the upper corner."""
    drawn = picture.convert("RGB")
    pen = _Pen(drawn)
    boxes = [each for each in results if isinstance(each, Box) and _is_finite(each)]
    for box in reversed(boxes):  # the best on top
        pen.outline(box)
        pen.write((box.x, max(box.y - pen.height, 0)), box)
    for place, each in enumerate(each for each in results if isinstance(each, Class)):
        pen.write((0, place * pen.height), each)
    return drawn


def describe_result(result: Box | Class) -> str:
    """Return a result's name, or the number of its class, and its score."""
    return f"{result.index if result.label is None else result.label} {result.score:.2f}"


class _Pen:
    """A pen whose lines and letters fit the size of the picture."""

    def __init__(self, picture: Image.Image) -> None:
        self._canvas = ImageDraw.Draw(picture)
        self._line = max(2, round(max(picture.size) / 400))
        self._font: Any = ImageFont.load_default(7 * self._line)
        self.height = float(self._canvas.textbbox((0, 0), "Ag", self._font)[3])
        """The height of a line of text."""

    def outline(self, box: Box) -> None:
        """Draw a box."""
        left, right = sorted((box.x, box.x + box.width))
        top, bottom = sorted((box.y, box.y + box.height))
        self._canvas.rectangle((left, top, right, bottom), outline=_color(box), width=self._line)

    def write(self, corner: tuple[float, float], result: Box | Class) -> None:
        """Write a result's name and score from the corner on, on a bar of its class's colour."""
        text, (left, top) = describe_result(result), corner
        width = self._canvas.textbbox((0, 0), text, self._font)[2]
        self._canvas.rectangle((left, top, left + width, top + self.height), fill=_color(result))
        self._canvas.text((left, top), text, "white", self._font)


def _is_finite(box: Box) -> bool:
    return all(map(math.isfinite, (box.x, box.y, box.width, box.height)))


def _color(result: Box | Class) -> str:
    return COLORS[result.index % len(COLORS)]
