"""The frames that a package takes: their functions in the package, and the way from its boxes to a frame's pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmbuild.base.frame_specs import Frame
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TakesInputs, TensorInfo
from tvmbuild.package.preprocess import Fit, find_rules

POSTPROCESS = "postprocess"
"""The name of the function that makes the result of the network's outputs."""


def frame_entry(number: int) -> str:
    """Return the name of the function from frame ``number`` of the package to the result."""
    return f"frame{number}"


def prepare_entry(number: int) -> str:
    """Return the name of the function from frame ``number`` of the package to the network's input."""
    return f"prepare{number}"


def list_others(info: TakesInputs) -> tuple[TensorInfo, ...]:
    """Return the inputs beside the picture, in the model's order. Raises TvmbuildError if no input is a picture."""
    picture = find_rules(info)[1]
    return tuple(each for each in info.inputs if each.name != picture.name)


def find_geometry(fit: Fit, size: tuple[int, int]) -> np.ndarray:
    """Return the numbers that map a point of the input to a frame of this width and height, float32 [6].

    They are left and top of the frame in the input, the scales of x and y, and the frame's width and height.
    """
    width, height = size
    return np.array([fit.left, fit.top, width / fit.width, height / fit.height, width, height], np.float32)


def find_frame_geometry(frame: Frame, fit: Fit, dtype: type = np.float32) -> np.ndarray:
    """Return the geometry of a frame, whose used part is at the place ``fit`` of the input."""
    part = frame.used
    across, down = part.width / fit.width, part.height / fit.height
    left, top = fit.left - part.left / across, fit.top - part.top / down
    return np.array([left, top, across, down, frame.width, frame.height], dtype)


def find_frame(frames: Sequence[Frame], shape: tuple[int, ...], encoding: str | None, model: str) -> int:
    """Return the number of the frame with this shape and encoding.

    ``encoding`` may be None if only one frame has the shape. Raises TvmbuildError if none or several fit.
    """
    fitting = [
        number for number, each in enumerate(frames) if each.shape == shape and encoding in (None, each.encoding)
    ]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(f"{each.encoding} {list(each.shape)}" for each in frames)
    if not frames:
        raise TvmbuildError(
            f"{model} takes no frames", "add `frame` to its `preprocess` in models.yaml and build it again"
        )
    if fitting:
        raise TvmbuildError(f"several frames of {model} are {list(shape)}: {known}", "name one by its `encoding`")
    asked = f"{encoding} {list(shape)}" if encoding else f"{list(shape)}"
    raise TvmbuildError(
        f"{model} takes no frame {asked}; it takes {known}", "add it to `frame` in models.yaml and build it again"
    )
