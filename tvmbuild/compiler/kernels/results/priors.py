"""The priors of a detector: the boxes that its own boxes are relative to, one for each cell and anchor of its grids."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_SLACK = 1e-3
"""The largest shortfall of a rounded stride, as a share of a cell."""


@dataclass(frozen=True)
class Priors:
    """Priors as models.yaml states them."""

    strides: tuple[float, ...]
    """The distance of the cells of each grid, in pixels."""
    anchors: tuple[tuple[float, ...], ...]
    """For each grid width and height of its anchors, one after the other, in pixels."""

    def list_boxes(self, height: int, width: int, *, normalised: bool) -> np.ndarray:
        """Return centre x, centre y, width and height of the priors of an input, float32 [count, 4].

        They are in pixels, or shares of the input. The cells come row by row, and the anchors of a cell together.
        """
        grids = []
        for stride, numbers in zip(self.strides, self.anchors, strict=True):
            rows, columns = (math.ceil(side / stride - _SLACK) for side in (height, width))
            sides = np.reshape(numbers, (-1, 2))
            y, x, which = np.meshgrid(np.arange(rows), np.arange(columns), np.arange(len(sides)), indexing="ij")
            centres = (np.stack([x.ravel(), y.ravel()], axis=1) + 0.5) * stride
            grids.append(np.concatenate([centres, sides[which.ravel()]], axis=1))
        boxes = np.concatenate(grids)
        return (boxes / (width, height, width, height) if normalised else boxes).astype(np.float32)
