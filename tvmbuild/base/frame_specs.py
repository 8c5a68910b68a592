"""The frames of a camera that a package takes: their size, their encoding, and how they are resized."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT

Encoding = Literal[
    "rgb8",
    "bgr8",
    "rgba8",
    "bgra8",
    "mono8",
    "yuyv",
    "uyvy",
    "nv12",
    "nv21",
    "i420",
    "bayer_rggb8",
    "bayer_bggr8",
    "bayer_gbrg8",
    "bayer_grbg8",
]
"""The order of a frame's bytes. The names are those of ROS 2 and of V4L2."""
Interpolation = Literal["antialias", "bilinear", "area", "nearest"]
"""``antialias`` is Pillow's bilinear filter; the others are OpenCV's INTER_LINEAR, INTER_AREA and INTER_NEAREST."""
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
INTERPOLATIONS: tuple[Interpolation, ...] = get_args(Interpolation)
_CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "yuyv": 2, "uyvy": 2}
_PLANES = ("nv12", "nv21", "i420")
_PAIRS = ("yuyv", "uyvy", *_PLANES)
"""The encodings in which two pixels of a row share a colour."""
_BAYER = "bayer_"
MAX_SIDE = 1 << 14
"""The largest width and height of a frame, in pixels."""
MAX_STRIDE = 8 * MAX_SIDE
"""The largest distance of two rows, in bytes."""


@dataclass(frozen=True)
class Crop:
    """The part of a frame that is used, in pixels."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class Frame:
    """A frame that a package takes: height and width in pixels, the encoding, and how it is resized."""

    height: int
    width: int
    encoding: Encoding
    interpolation: Interpolation = "antialias"
    stride: int | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The distance of two rows in bytes. None means no gaps between rows."""
    crop: Crop | None = field(default=None, metadata=OMIT_WHEN_DEFAULT)
    """The part that is used. None means the whole frame."""

    @property
    def used(self) -> Crop:
        """The part of the frame that is used."""
        return self.crop or Crop(0, 0, self.height, self.width)

    @property
    def row_bytes(self) -> int:
        """The number of bytes of a row of pixels, or of a row of their brightness if colours lie in planes."""
        return self.width * _CHANNELS.get(self.encoding, 1)

    @property
    def pitch(self) -> int:
        """The distance of two rows in bytes."""
        return self.stride or self.row_bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the frame's bytes as a uint8 array.

        It is [height, width, channels], or [height, width] for mono8 and Bayer patterns, [height · 3/2, width] for
        planes of colour; with a stride, [rows, stride].
        """
        rows = self.height * 3 // 2 if self.encoding in _PLANES else self.height
        if self.stride is not None:
            return (rows, self.stride)
        channels = _CHANNELS.get(self.encoding)
        return (rows, self.width) if channels is None else (rows, self.width, channels)

    def find_fault(self) -> str | None:
        """Return why no camera can deliver such a frame, or None if one can."""
        if not (1 <= self.height <= MAX_SIDE and 1 <= self.width <= MAX_SIDE):
            return f"a frame has 1 to {MAX_SIDE} rows and columns"
        if self.encoding in _PAIRS and self.width % 2:
            return f"two pixels of a row share a colour in {self.encoding}, so the width is even"
        if self.encoding in _PLANES and self.height % 2:
            return f"two rows share their colours in {self.encoding}, so the height is even"
        if self.encoding.startswith(_BAYER) and (self.width % 2 or self.height % 2 or min(self.height, self.width) < 4):
            return f"two by two pixels share their colours in {self.encoding}, so both sides are even, and 4 at least"
        return self._find_fault_of_rows() or self._find_fault_of_crop()

    def _find_fault_of_rows(self) -> str | None:
        if self.stride is None:
            return None
        if not self.row_bytes <= self.stride <= MAX_STRIDE:
            return f"a row has {self.row_bytes} bytes, so the stride is {self.row_bytes} to {MAX_STRIDE}"
        if self.encoding == "i420" and self.stride % 2:
            return "a row of colours has half as many bytes in i420, so the stride is even"
        return None

    def _find_fault_of_crop(self) -> str | None:
        part = self.used
        inside = part.top + part.height <= self.height and part.left + part.width <= self.width
        if min(part.top, part.left) < 0 or min(part.height, part.width) < 1 or not inside:
            return f"the crop lies inside of {self.height} rows and {self.width} columns"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value of the frame. ``frame_from_json`` is the inverse."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def frame_from_json(value: dict[str, Any]) -> Frame:
    """Parse the output of ``Frame.to_json``. Raises TypeError if it is malformed."""
    crop = value.get("crop")
    return Frame(**{**value, "crop": None if crop is None else Crop(**crop)})
