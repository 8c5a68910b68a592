"""The frames of a camera that a package takes: their size, their encoding, and how they are resized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Encoding = Literal["rgb8", "bgr8", "rgba8", "bgra8", "mono8", "yuyv", "uyvy", "nv12", "nv21", "i420"]
"""The order of a frame's bytes. The names are those of ROS 2 and of V4L2."""
Interpolation = Literal["antialias", "bilinear", "nearest"]
"""``antialias`` is Pillow's bilinear filter, ``bilinear`` is OpenCV's INTER_LINEAR, ``nearest`` its INTER_NEAREST."""
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
INTERPOLATIONS: tuple[Interpolation, ...] = get_args(Interpolation)
_CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "yuyv": 2, "uyvy": 2}
_PLANES = ("nv12", "nv21", "i420")
MAX_SIDE = 1 << 14
"""The largest width and height of a frame, in pixels."""


@dataclass(frozen=True)
class Frame:
    """A frame that a package takes: height and width in pixels, the encoding, and how it is resized."""

    height: int
    width: int
    encoding: Encoding
    interpolation: Interpolation = "antialias"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the frame's bytes as a uint8 array.

        It is [height, width, channels], [height, width] for mono8, and [height · 3/2, width] for planes of colour.
        """
        if self.encoding in _PLANES:
            return (self.height * 3 // 2, self.width)
        channels = _CHANNELS.get(self.encoding)
        return (self.height, self.width) if channels is None else (self.height, self.width, channels)

    def find_fault(self) -> str | None:
        """Return why no camera can deliver such a frame, or None if one can."""
        if not (1 <= self.height <= MAX_SIDE and 1 <= self.width <= MAX_SIDE):
            return f"a frame has 1 to {MAX_SIDE} rows and columns"
        if self.encoding in ("yuyv", "uyvy", *_PLANES) and self.width % 2:
            return f"two pixels of a row share a colour in {self.encoding}, so the width is even"
        if self.encoding in _PLANES and self.height % 2:
            return f"two rows share their colours in {self.encoding}, so the height is even"
        return None
