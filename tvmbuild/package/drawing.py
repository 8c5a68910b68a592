"""Drawing results into a picture: boxes with names, masks, points, maps of classes, and lines of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.result_arrays import OUTSIDE
from tvmbuild.package.results import Box, Class, Map, Point, Result, Text

COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#800000")
"""The colours of boxes; the number of a class chooses one."""
_SHARE = 0.5
"""The part of a pixel's colour that comes from its mask or class."""


def draw_results(picture: Image.Image, results: Sequence[Result]) -> Image.Image:
    """Return a copy of the picture with the results.

    Boxes have names, masks and classes of pixels have colours, points are dots, and classes and texts are lines in the
    upper corner. Vectors and outputs are not drawn. Raises TvmbuildError if a mask or map has another size.
    """
    drawn = _draw_pixels(picture.convert("RGB"), results)
    pen = _Pen(drawn)
    boxes = [each for each in results if isinstance(each, Box) and _is_finite(each)]
    for box in reversed(boxes):  # the best on top
        pen.outline(box)
        for point in box.points:
            pen.dot(point, _color(box.index))
        pen.write((box.x, max(box.y - pen.height, 0)), box)
    for each in results:
        if isinstance(each, Point):
            pen.dot(each, _color(each.index))
    lines = [each for each in results if isinstance(each, Class | Text)]
    for place, line in enumerate(lines):
        pen.write((0, place * pen.height), line)
    return drawn


def describe_result(result: Box | Class | Text) -> str:
    """Return a result's text or name, or the number of its class, and its score."""
    if isinstance(result, Text):
        return f"{result.text} {result.score:.2f}"
    return f"{result.index if result.label is None else result.label} {result.score:.2f}"


def make_palette() -> np.ndarray:
    """Return the colours of the classes of maps, uint8 [256, 3], which are those of the PASCAL VOC data set."""
    numbers = np.arange(256)
    palette = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            palette[:, channel] |= ((numbers >> (3 * bit + channel)) & 1).astype(np.uint8) << (7 - bit)
    return palette


def _draw_pixels(picture: Image.Image, results: Sequence[Result]) -> Image.Image:
    """Return the picture with the colours of masks and maps."""
    pixels = np.asarray(picture)
    for result in results:
        if isinstance(result, Map):
            seen = result.classes != OUTSIDE
            pixels = _mix(pixels, seen, make_palette()[result.classes[seen]])
        if isinstance(result, Box) and result.mask is not None:
            color = Image.new("RGB", (1, 1), _color(result.index)).getpixel((0, 0))
            pixels = _mix(pixels, result.mask, np.array(color))
    return Image.fromarray(pixels)


def _mix(pixels: np.ndarray, where: np.ndarray, colors: np.ndarray) -> np.ndarray:
    if where.shape != pixels.shape[:2]:
        told = " x ".join(map(str, where.shape))
        raise TvmbuildError(
            f"a mask or map of {told} pixels cannot be drawn into a picture of {pixels.shape[0]} x {pixels.shape[1]}",
            "draw into the frame, and state `resolution: frame` in models.yaml",
        )
    mixed: np.ndarray = pixels.copy()
    mixed[where] = (pixels[where] * (1 - _SHARE) + colors * _SHARE).astype(np.uint8)
    return mixed


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
        self._canvas.rectangle((left, top, right, bottom), outline=_color(box.index), width=self._line)

    def dot(self, point: Point, color: str) -> None:
        """Draw a point."""
        if math.isfinite(point.x) and math.isfinite(point.y):
            self._canvas.circle((point.x, point.y), 1.5 * self._line, fill=color, outline="white")

    def write(self, corner: tuple[float, float], result: Box | Class | Text) -> None:
        """Write a result's name and score from the corner on, on a bar of its class's colour."""
        text, (left, top) = describe_result(result), corner
        color = _color(0 if isinstance(result, Text) else result.index)
        width = self._canvas.textbbox((0, 0), text, self._font)[2]
        self._canvas.rectangle((left, top, left + width, top + self.height), fill=color)
        self._canvas.text((left, top), text, "white", self._font)


def _is_finite(box: Box) -> bool:
    return all(map(math.isfinite, (box.x, box.y, box.width, box.height)))


def _color(index: int) -> str:
    return COLORS[index % len(COLORS)]
