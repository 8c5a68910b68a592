"""The conversion of a picture into an input of a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tvmbuild.base.field_marks import OMIT_WHEN_DEFAULT


@dataclass(frozen=True)
class Preprocess:
    """The conversion of a picture into an input tensor.

    The picture is resized, its colours are ordered, and its values are multiplied by ``scale``, reduced by ``mean`` and
    divided by ``std``.
    """

    input: str | None = None
    """The name of the input, or None for the model's only input."""
    resize: Literal["stretch", "letterbox", "crop"] = "stretch"
    color: Literal["rgb", "bgr", "gray"] = "rgb"
    scale: float = 1.0 / 255.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    align: Literal["center", "top-left"] = field(default="center", metadata=OMIT_WHEN_DEFAULT)
    """The place of a letterboxed picture in the tensor."""
    fill: int = field(default=114, metadata=OMIT_WHEN_DEFAULT)
    """The byte around a letterboxed picture, by default that of the training of YOLO models."""
    crop_pct: float = field(default=1.0, metadata=OMIT_WHEN_DEFAULT)
    """The share of a resized picture's shorter side that `crop` keeps, as in timm: 0.875 makes 224 pixels of 256."""


MIN_CROP_PCT = 0.1
"""The smallest ``crop_pct``."""
