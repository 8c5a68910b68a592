"""A map of pixels, and the pixels of a network's output from which each of them is interpolated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmbuild.package.preprocess import Fit


@dataclass(frozen=True)
class Canvas:
    """A map of ``height`` by ``width`` pixels: a frame, or the network's input."""

    height: int
    width: int
    fit: Fit
    """The place of the whole map in the network's input, in the input's pixels."""
    input_size: tuple[int, int]
    """Height and width of the network's input."""

    def list_centres(self, axis: int) -> np.ndarray:
        """Return the centres of the map's rows (axis 0) or columns (axis 1) in the input's pixels, float32."""
        scale, offset = self.find_scale(axis)
        size = (self.height, self.width)[axis]
        return ((np.arange(size) + 0.5) * scale + offset).astype(np.float32)

    def find_scale(self, axis: int) -> tuple[float, float]:
        """Return the size of a pixel of the map in the input's pixels, and the place of the map's border."""
        size = (self.height, self.width)[axis]
        return ((self.fit.height, self.fit.width)[axis] / size, float((self.fit.top, self.fit.left)[axis]))

    def list_taps(self, axis: int, size: int, *, nearest: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each row or column, a row or column of an output with ``size`` of them, and a weight.

        The weight is that of the next row or column, float32; the numbers are int32, and -1 outside of the input.
        """
        scale, offset = self.find_scale(axis)
        extent = self.input_size[axis]
        centres = (np.arange((self.height, self.width)[axis]) + 0.5) * scale + offset
        places = centres * (size / extent)
        outside = (centres < 0) | (centres >= extent)
        if not nearest:
            places = np.clip(places - 0.5, 0, size - 1)
        first = np.clip(np.floor(places), 0, size - 1)
        weights = np.zeros_like(places) if nearest else places - first
        return np.where(outside, -1, first).astype(np.int32), weights.astype(np.float32)
