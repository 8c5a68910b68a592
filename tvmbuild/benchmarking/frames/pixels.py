"""The interpolation of a network's maps at the pixels of a frame, by plain NumPy."""

from __future__ import annotations

import numpy as np


def interpolate(values: np.ndarray, places: np.ndarray, extent: int, *, axis: int, nearest: bool = False) -> np.ndarray:
    """Return values interpolated along an axis at places of the input, NaN where these are NaN.

    ``extent`` is the number of the input's pixels along the axis.
    """
    size = values.shape[axis]
    at = np.nan_to_num(places) / extent * size
    shape = [-1 if each == axis else 1 for each in range(values.ndim)]
    if nearest:
        taken = np.take(values.astype(np.float64), np.clip(np.floor(at), 0, size - 1).astype(int), axis)
    else:
        at = np.clip(at - 0.5, 0, size - 1)
        first = np.floor(at).astype(int)
        weight = (at - first).reshape(shape)
        taken = np.take(values, first, axis) * (1 - weight)
        taken = taken + np.take(values, np.minimum(first + 1, size - 1), axis) * weight
    interpolated: np.ndarray = np.where(np.isnan(places).reshape(shape), np.nan, taken)
    return interpolated
