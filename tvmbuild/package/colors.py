"""The colours of a frame's pixels by plain NumPy, from the definitions of the encodings.

The weights of colours are whole numbers, as OpenCV and Pillow define them, so that the bytes are exact.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmbuild.base.frame_specs import Frame

_ORDERS = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2), "bgra8": (2, 1, 0)}
"""Encoding → the places of red, green and blue."""
_FROM_YUV = np.array([[1220542, 0, 1673527], [1220542, -409993, -852492], [1220542, 2116026, 0]])
"""The rows are red, green and blue of BT.601; the columns are luma and the two differences of colour, U and V.

They are OpenCV's weights, with 20 bits of fraction.
"""
_PATTERNS = {"bayer_rggb8": (0, 0), "bayer_bggr8": (1, 1), "bayer_gbrg8": (1, 0), "bayer_grbg8": (0, 1)}
"""Encoding → row and column of the first red pixel."""
_TO_GRAY = np.array([19595, 38470, 7471])
"""Pillow's weights of red, green and blue, with 16 bits of fraction."""


def read_colors(frame: Frame, data: np.ndarray, color: str) -> np.ndarray:
    """Return a frame's pixels as whole numbers [height, width, channels], in a colour order: rgb, bgr or gray."""
    if frame.stride is not None:
        data = remove_gaps(frame, data)
    if frame.encoding == "mono8":
        return np.repeat(data[:, :, None], 1 if color == "gray" else 3, axis=2).astype(np.int64)
    if frame.encoding in _ORDERS:
        rgb = data[:, :, _ORDERS[frame.encoding]].astype(np.int64)
    elif frame.encoding in _PATTERNS:
        rgb = _blend_pattern(data.astype(np.int64), *_PATTERNS[frame.encoding])
    else:
        luma, blue, red = (each.astype(np.int64) for each in _split(frame, data))
        yuv = np.stack([np.maximum(luma - 16, 0), blue - 128, red - 128], axis=-1)
        rgb = np.clip(_round(yuv @ _FROM_YUV.T, 20), 0, 255)
    if color == "gray":
        return _round(rgb @ _TO_GRAY, 16)[:, :, None]
    return rgb[:, :, ::-1] if color == "bgr" else rgb


def remove_gaps(frame: Frame, data: np.ndarray) -> np.ndarray:
    """Return the bytes of a frame with gaps between its rows as those of a frame without gaps."""
    shape = replace(frame, stride=None).shape
    if frame.encoding != "i420":
        return np.ascontiguousarray(data[:, : frame.row_bytes]).reshape(shape)
    colors = data[frame.height :].reshape(frame.height, -1)[:, : frame.width // 2]
    return np.concatenate([data[: frame.height, : frame.width], colors.reshape(-1, frame.width)])


def _blend_pattern(data: np.ndarray, red_row: int, red_column: int) -> np.ndarray:
    """Return red, green and blue of the pixels of a Bayer pattern whose first red pixel is given.

    A missing colour is the mean of the two or four pixels beside that have it. The outermost pixels have the colours of
    their neighbours inside, as in OpenCV.
    """
    rows, columns = (np.arange(size) for size in data.shape)
    is_red = (rows[:, None] % 2 == red_row) & (columns[None, :] % 2 == red_column)
    is_blue = (rows[:, None] % 2 != red_row) & (columns[None, :] % 2 != red_column)
    planes = []
    for mask in (is_red, ~(is_red | is_blue), is_blue):
        value, known = np.pad(data * mask, 1), np.pad(mask.astype(np.int64), 1)
        height, width = data.shape
        near = [(1, 0), (1, 2), (0, 1), (2, 1)]
        far = [(0, 0), (0, 2), (2, 0), (2, 2)]
        sums, counts = (
            [sum(each[y : y + height, x : x + width] for y, x in where) for where in (near, far)]
            for each in (value, known)
        )
        beside, count = (np.where(counts[0] > 0, *pair) for pair in (sums, counts))
        planes.append(np.where(mask, data, (beside + count // 2) // np.maximum(count, 1)))
    inside = np.stack(planes, axis=-1)[1:-1, 1:-1]
    return np.pad(inside, ((1, 1), (1, 1), (0, 0)), mode="edge")


def _round(values: np.ndarray, bits: int) -> np.ndarray:
    """Return the nearest whole numbers of values with ``bits`` bits of fraction, the larger one of two equally near."""
    rounded: np.ndarray = (values + (1 << (bits - 1))) >> bits
    return rounded


def _split(frame: Frame, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return luma, U and V of each pixel. Neighbouring pixels share U and V."""
    if frame.encoding in ("yuyv", "uyvy"):
        luma, pairs = (data[:, :, 0], data[:, :, 1]) if frame.encoding == "yuyv" else (data[:, :, 1], data[:, :, 0])
        return luma, np.repeat(pairs[:, 0::2], 2, axis=1), np.repeat(pairs[:, 1::2], 2, axis=1)
    height, width = frame.height, frame.width
    luma, rest = data[:height], data[height:].reshape(-1)
    if frame.encoding == "i420":
        first, second = rest.reshape(2, height // 2, width // 2)
    else:
        first, second = np.moveaxis(rest.reshape(height // 2, width // 2, 2), 2, 0)
    if frame.encoding == "nv21":
        first, second = second, first
    return luma, _widen(first), _widen(second)


def _widen(plane: np.ndarray) -> np.ndarray:
    return np.repeat(np.repeat(plane, 2, axis=0), 2, axis=1)
