"""The taps of a resize along one axis: the pixels that each pixel of the result is a weighted sum of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvmbuild.base.frame_specs import Interpolation

PILLOW_BITS = 22
"""The fraction bits of Pillow's weights (`PRECISION_BITS` of its Resample.c)."""
OPENCV_BITS = 11
"""The fraction bits of OpenCV's weights (`INTER_RESIZE_COEF_BITS`)."""

AREA_BITS = 14
"""The fraction bits of the weights of means over areas. OpenCV's are float32."""
Way = Interpolation | Literal["area_growing"]
"""A way to resize; OpenCV's INTER_AREA has another one where a side grows."""


@dataclass(frozen=True)
class Taps:
    """The taps of a resize along one axis. Pixel i is the sum of ``weights[i, k]`` times pixel ``first[i] + k``."""

    first: np.ndarray
    """int32 [pixels]. All taps of a pixel exist: ``first[i] + weights.shape[1]`` is at most the source's size."""
    weights: np.ndarray
    """int32 [pixels, taps]"""

    @property
    def count(self) -> int:
        """The number of taps of a pixel."""
        return int(self.weights.shape[1])

    def cut(self, begin: int, end: int) -> Taps:
        """Return the taps of the pixels from ``begin`` to ``end``."""
        return Taps(self.first[begin:end], self.weights[begin:end])

    def list_sources(self) -> np.ndarray:
        """Return the source pixels whose weight is not zero everywhere, in ascending order."""
        return np.unique((self.first[:, None] + np.arange(self.count))[self.weights != 0])

    def renumber(self, sources: np.ndarray) -> Taps:
        """Return the taps for a source that has only the pixels of ``sources``, in ascending order."""
        used = [(self.first[i] + np.flatnonzero(row), row[row != 0]) for i, row in enumerate(self.weights)]
        return _align([(np.searchsorted(sources, pixels), weights) for pixels, weights in used], len(sources))


def find_taps(way: Way, source: int, size: int) -> Taps:
    """Return the taps of a resize of ``source`` pixels to ``size`` pixels."""
    return _align([_FOUND_BY[way](source, size, pixel) for pixel in range(size)], source)


def find_rows(way: Way, source: int, size: int) -> tuple[Taps, np.ndarray]:
    """Return the taps of a resize of ``source`` rows to ``size`` rows, and the row of each tap's source, int32.

    OpenCV repeats the first and the last row for taps outside of the picture, with their own weights.
    """
    if way != "bilinear":
        return find_taps(way, source, size), np.arange(source, dtype=np.int32)
    taps = (_place_bilinear(source, size, pixel) for pixel in range(size))
    beyond = _align([(rows + 1, weights) for rows, weights in taps], source + 2)
    return beyond, np.clip(np.arange(source + 2) - 1, 0, source - 1).astype(np.int32)


def _antialias(source: int, size: int, pixel: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the taps of Pillow's bilinear filter, a triangle as wide as two pixels of the smaller image."""
    scale = source / size
    support = max(scale, 1.0)
    center = (pixel + 0.5) * scale
    first = max(0, int(center - support + 0.5))
    last = min(source, int(center + support + 0.5))
    weights = [max(0.0, 1.0 - abs((each - center + 0.5) * (1.0 / support))) for each in range(first, last)]
    total = 0.0
    for weight in weights:  # in this order, as Pillow adds them
        total += weight
    normalised = [int(0.5 + weight / total * (1 << PILLOW_BITS)) for weight in weights]
    return np.arange(first, last), np.array(normalised)


def _bilinear(source: int, size: int, pixel: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the taps of OpenCV's INTER_LINEAR along a row: beyond the ends, the last pixel only."""
    pixels, weights = _place_bilinear(source, size, pixel)
    if pixels[0] < 0 or pixels[1] >= source:
        return np.array([np.clip(pixels[0], 0, source - 1)]), np.array([1 << OPENCV_BITS])
    return pixels, weights


def _place_bilinear(source: int, size: int, pixel: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two taps of OpenCV's INTER_LINEAR, which may lie outside of the source. Positions are float32."""
    place = np.float32((pixel + 0.5) * _opencv_scale(source, size) - 0.5)
    first = int(np.floor(place))
    share = np.float32(place - np.float32(first))
    one = np.float32(1 << OPENCV_BITS)
    return np.array([first, first + 1]), np.array(
        [round(float((np.float32(1) - share) * one)), round(float(share * one))]
    )


def _nearest(source: int, size: int, pixel: int) -> tuple[np.ndarray, np.ndarray]:
    return np.array([min(int(pixel * _opencv_scale(source, size)), source - 1)]), np.array([1])


def _area(source: int, size: int, pixel: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the taps of OpenCV's INTER_AREA: each pixel of the source counts by the part that the result covers."""
    begin, end = pixel * source / size, (pixel + 1) * source / size
    pixels = np.arange(int(begin), min(int(np.ceil(end - _TINY)), source))
    shares = np.minimum(pixels + 1, end) - np.maximum(pixels, begin)
    return _round(pixels, shares / shares.sum())


def _area_growing(source: int, size: int, pixel: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the taps of OpenCV's INTER_AREA where a side grows: a blend only where a pixel covers a border."""
    first = int(np.floor(pixel * _opencv_scale(source, size)))
    share = float(np.float32(pixel + 1 - (first + 1) * (size / source)))
    share = 0.0 if share <= 0 else share - np.floor(share)
    if first >= source - 1:
        return np.array([source - 1]), np.array([1 << AREA_BITS])
    return _round(np.array([first, first + 1]), np.array([1 - share, share]))


def _round(pixels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return taps with weights as integers whose sum is exact."""
    found = np.rint(weights * (1 << AREA_BITS)).astype(int)
    found[np.argmax(found)] += (1 << AREA_BITS) - found.sum()
    return pixels, found


def _opencv_scale(source: int, size: int) -> float:
    """Return the source's pixels for one of the result, with OpenCV's rounding."""
    return 1 / (size / source)


def _align(taps: list[tuple[np.ndarray, np.ndarray]], source: int) -> Taps:
    """Give all pixels equally many neighbouring taps, with weights of zero beside a pixel's own."""
    spans = [pixels[weights != 0] for pixels, weights in taps]
    count = max(int(span[-1] - span[0]) + 1 for span in spans)
    first = np.array([min(int(span[0]), source - count) for span in spans], np.int32)
    weights = np.zeros((len(taps), count), np.int32)
    for i, (pixels, values) in enumerate(taps):
        used = values != 0
        weights[i, pixels[used] - first[i]] = values[used]
    return Taps(first, weights)


_TINY = 1e-9
_FOUND_BY: Mapping[Way, Callable[[int, int, int], tuple[np.ndarray, np.ndarray]]] = {
    "antialias": _antialias,
    "bilinear": _bilinear,
    "area": _area,
    "area_growing": _area_growing,
    "nearest": _nearest,
}
