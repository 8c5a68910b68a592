"""OpenCV's interpolation of a network's maps at the pixels of a frame."""

from __future__ import annotations

import cv2
import numpy as np

from tvmbuild.benchmarking.frames.way import Decoding

_FLAGS = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


def draw_part(decoding: Decoding, plane: np.ndarray, part: tuple[slice, slice]) -> np.ndarray:
    """Return a map [height, width] at the rows and columns of a part of the frame."""
    height, width = plane.shape
    rows, columns = part
    size = (columns.stop - columns.start, rows.stop - rows.start)
    left, top, across, down = decoding.map_geometry[:4].tolist()
    scales = width / decoding.width / across, height / decoding.height / down
    begins = (
        (columns.start + 0.5) * scales[0] + left * width / decoding.width - 0.5,
        (rows.start + 0.5) * scales[1] + top * height / decoding.height - 0.5,
    )
    if all(abs(begin + 0.5 - scale / 2) < 1e-6 for begin, scale in zip(begins, scales, strict=True)) and np.allclose(
        np.multiply(size, scales), (width, height)
    ):
        return np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR))
    matrix = np.array([[scales[0], 0, begins[0]], [0, scales[1], begins[1]]])
    return np.asarray(cv2.warpAffine(plane, matrix, size, flags=_FLAGS, borderMode=cv2.BORDER_REPLICATE))


def draw_nearest(decoding: Decoding, plane: np.ndarray, part: tuple[slice, slice]) -> np.ndarray:
    """Return the nearest values of a map [height, width] at the rows and columns of a part of the frame."""
    taken = []
    for axis, each in enumerate(part):
        places = decoding.places[axis][each] * (plane.shape[axis] / (decoding.height, decoding.width)[axis])
        taken.append(np.minimum(places.astype(int), plane.shape[axis] - 1))
    drawn: np.ndarray = np.take(np.take(plane, taken[0], 0), taken[1], 1)
    return drawn
