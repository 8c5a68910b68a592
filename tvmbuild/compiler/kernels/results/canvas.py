"""A map of pixels, and the pixels of a network's output from which each of them is interpolated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmbuild.base.frame_specs import Frame
from tvmbuild.package.preprocess import Fit


@dataclass(frozen=True)
class Side:
    """The rows or the columns of a map, and their place in the input."""

    size: int
    scale: float
    """The size of a pixel of the map in the input's pixels."""
    offset: float
    """The place of the map's border in the input."""
    used: range
    """The rows or columns that the network sees, if they are inside of the input."""
    extent: int
    """The number of the input's rows or columns."""

    def list_centres(self) -> np.ndarray:
        """Return the centres of the rows or columns in the input's pixels, float32."""
        return self._place().astype(np.float32)

    def _place(self) -> np.ndarray:
        return (np.arange(self.size) + 0.5) * self.scale + self.offset

    def list_taps(self, size: int, *, nearest: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the source of each row (or column) of pixels in an output with ``size`` rows, as two arrays.

        The first, int32, has the output's row, or -1 if the network does not see the pixels; the second, float32, has
        the weight of the next row, for interpolation.
        """
        centres, numbers = self._place(), np.arange(self.size)
        places = centres * (size / self.extent)
        outside = (centres < 0) | (centres >= self.extent) | (numbers < self.used.start) | (numbers >= self.used.stop)
        if not nearest:
            places = np.clip(places - 0.5, 0, size - 1)
        first = np.clip(np.floor(places), 0, size - 1)
        weights = np.zeros_like(places) if nearest else places - first
        return np.where(outside, -1, first).astype(np.int32), weights.astype(np.float32)

    def list_run_taps(self, size: int, lanes: int, *, nearest: bool = False) -> list[np.ndarray]:
        """Return taps and weights, and where the run of rows or columns with each tap begins, int32 [size + 1].

        The last number is the end of the last run. A vector of ``lanes`` weights may begin at any row or column, so
        zeros follow the weights.
        """
        seen, (first, weights) = self.find_seen(), self.list_taps(size, nearest=nearest)
        begins = seen.start + np.searchsorted(first[seen.start : seen.stop], np.arange(size + 1))
        return [first, np.pad(weights, (0, lanes)), begins.astype(np.int32)]

    def find_seen(self) -> range:
        """Return the rows or columns that the network sees."""
        numbers, _ = self.list_taps(1)
        seen = np.flatnonzero(numbers >= 0)
        return range(int(seen[0]), int(seen[-1]) + 1) if len(seen) else range(0)


@dataclass(frozen=True)
class Canvas:
    """A map of pixels: a frame, or the network's input."""

    rows: Side
    columns: Side

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.rows.size, self.columns.size


def make_canvas(frame: Frame, fit: Fit, input_size: tuple[int, int]) -> Canvas:
    """Return the canvas of a frame whose used part is at the place ``fit`` of an input of this height and width."""
    part = frame.used
    return Canvas(
        _make_side(frame.height, (part.top, part.height), (fit.top, fit.height), input_size[0]),
        _make_side(frame.width, (part.left, part.width), (fit.left, fit.width), input_size[1]),
    )


def make_input_canvas(height: int, width: int) -> Canvas:
    """Return the canvas of a network's input."""
    return Canvas(*(_make_side(size, (0, size), (0, size), size) for size in (height, width)))


def _make_side(size: int, part: tuple[int, int], place: tuple[int, int], extent: int) -> Side:
    """Return a side with the first row or column and the number of those that are used, and the same in the input."""
    (begin, used), (offset, length) = part, place
    scale = length / used if used else 1.0
    return Side(size, scale, offset - begin * scale, range(begin, begin + used), extent)
