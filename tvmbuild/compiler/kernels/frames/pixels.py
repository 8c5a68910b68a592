"""Reading a frame's pixels in its encoding. Colours of YUV are BT.601 in OpenCV's integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvmbuild.base.frame_specs import Encoding, Frame
from tvmbuild.compiler.ir.expressions import int32, int64

_ORDERS: dict[Encoding, tuple[int, int, int]] = {
    "rgb8": (0, 1, 2),
    "bgr8": (2, 1, 0),
    "rgba8": (0, 1, 2),
    "bgra8": (2, 1, 0),
}
"""The places of red, green and blue in a pixel."""
_PATTERNS: dict[Encoding, tuple[int, int]] = {
    "bayer_rggb8": (0, 0),
    "bayer_bggr8": (1, 1),
    "bayer_gbrg8": (1, 0),
    "bayer_grbg8": (0, 1),
}
"""The row and the column of the first red pixel."""
# OpenCV's ITUR_BT_601_*: 20 bits of fraction.
_SHIFT, _CY, _CUB, _CUG, _CVG, _CVR = 20, 1220542, 2116026, -409993, -852492, 1673527
_GRAY = (19595, 38470, 7471)
"""Pillow's weights of red, green and blue in a grey value, with 16 bits of fraction."""
Reader = Callable[[Any, Any], Sequence[Any]]
"""A function that returns a pixel's channels as int32 expressions, for its row and its column."""


def is_packed(encoding: Encoding) -> bool:
    """Return whether a pixel's channels lie beside each other, so that they can be read without a conversion."""
    return encoding in _ORDERS or encoding == "mono8"


def make_reader(frame: Frame, data: Any, color: str) -> Reader:
    """Return the reader of a frame's pixels in a colour order: rgb, bgr or gray.

    ``data`` is the flat buffer with the frame's bytes.
    """
    read = _make_rgb(frame, data)

    def read_ordered(row: Any, column: Any) -> Sequence[Any]:
        found = read(row, column)
        if color == "gray":
            return found if len(found) == 1 else [_to_gray(found)]
        found = found * 3 if len(found) == 1 else found
        return found[::-1] if color == "bgr" else found

    return read_ordered


def _make_rgb(frame: Frame, data: Any) -> Callable[[Any, Any], list[Any]]:
    """Return the reader of red, green and blue, or of the only channel of mono8."""
    height, pitch = frame.height, frame.pitch

    def at(place: Any) -> Any:
        return data[place].astype("int32")

    def packed(row: Any, column: Any) -> list[Any]:
        if frame.encoding == "mono8":
            return [at(row * pitch + column)]
        size = frame.row_bytes // frame.width
        return [at(row * pitch + column * size + place) for place in _ORDERS[frame.encoding]]

    def interleaved(row: Any, column: Any) -> list[Any]:
        luma = int(frame.encoding == "uyvy")
        pair = row * pitch + column // 2 * 4 + (1 - luma)
        return _to_rgb(at(row * pitch + column * 2 + luma), at(pair), at(pair + 2))

    def planes(row: Any, column: Any) -> list[Any]:
        luma = at(row * pitch + column)
        if frame.encoding == "i420":
            place = height * pitch + row // 2 * (pitch // 2) + column // 2
            return _to_rgb(luma, at(place), at(place + height * pitch // 4))
        pair = height * pitch + row // 2 * pitch + column // 2 * 2
        first, second = at(pair), at(pair + 1)
        return _to_rgb(luma, second, first) if frame.encoding == "nv21" else _to_rgb(luma, first, second)

    def mosaic(row: Any, column: Any) -> list[Any]:
        # OpenCV gives the outermost pixels the colours of their neighbours inside.
        y = tirx.Max(tirx.Min(row, int64(height - 2)), int64(1))
        x = tirx.Max(tirx.Min(column, int64(frame.width - 2)), int64(1))
        return _blend_mosaic(frame.encoding, lambda down, across: at((y + down) * pitch + x + across), (y, x))

    if is_packed(frame.encoding):
        return packed
    if frame.encoding in _PATTERNS:
        return mosaic
    return interleaved if frame.encoding in ("yuyv", "uyvy") else planes


def _to_rgb(luma: Any, blue: Any, red: Any) -> list[Any]:
    """Return red, green and blue of a pixel's luma and its two differences of colour, U and V."""
    half = int32(1 << (_SHIFT - 1))
    bright = tirx.Max(luma - int32(16), int32(0)) * int32(_CY)
    u, v = blue - int32(128), red - int32(128)
    sums = (
        bright + half + v * int32(_CVR),
        bright + half + v * int32(_CVG) + u * int32(_CUG),
        bright + half + u * int32(_CUB),
    )
    return [tirx.Max(tirx.Min(each >> int32(_SHIFT), int32(255)), int32(0)) for each in sums]


def _blend_mosaic(encoding: Encoding, at: Callable[[int, int], Any], place: tuple[Any, Any]) -> list[Any]:
    """Return red, green and blue of a pixel of a Bayer pattern, as OpenCV's bilinear demosaicing has them.

    ``at`` returns the byte at a distance from the pixel, down and across.
    """
    own = at(0, 0)
    sides, ends = at(0, -1) + at(0, 1), at(-1, 0) + at(1, 0)
    corners = at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)
    two, four = int32(1), int32(2)
    across, down = (sides + int32(1)) >> two, (ends + int32(1)) >> two
    diagonal, around = (corners + int32(2)) >> four, (sides + ends + int32(2)) >> four
    red_row, red_column = _PATTERNS[encoding]
    y, x = place
    in_red_row, in_red_column = (each % 2 == int64(red) for each, red in ((y, red_row), (x, red_column)))

    def choose(both: Any, row: Any, column: Any, none: Any) -> Any:
        """Return the value for a pixel in a row of red and a column of red, in one of them, or in none."""
        return tirx.Select(in_red_row, tirx.Select(in_red_column, both, row), tirx.Select(in_red_column, column, none))

    red = choose(own, across, down, diagonal)
    green = choose(around, own, own, around)
    return [red, green, choose(diagonal, down, across, own)]


def _to_gray(channels: Sequence[Any]) -> Any:
    total = int32(1 << 15)
    for weight, value in zip(_GRAY, channels, strict=True):
        total = total + value * int32(weight)
    return total >> int32(16)
